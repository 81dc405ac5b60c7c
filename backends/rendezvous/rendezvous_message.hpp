#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/error.hpp"

#include "backends/call.hpp"
#include "backends/rendezvous/flight_recorder.hpp"

// Messages between ranks and the rendezvous, and their form on the wire: a stream of frames.
// A frame has four bytes of length (of what follows, the highest byte first), one byte of type, and
// the payload.
namespace shardsim {

/// Why a run has failed, as data that travels between processes: a Diagnosis, or what an Error
/// holds.
struct RunFailure {
  ExitCode exit_code = ExitCode::internal;
  std::string code;     ///< Code of the diagnosis, if there is one.
  std::string message;  ///< Empty where there is a diagnosis.
  std::string fix;
  std::optional<Diagnosis> diagnosis;

  [[nodiscard]] static RunFailure from(const Error& error);
  [[nodiscard]] static RunFailure from(Diagnosis diagnosis, ExitCode exit_code);

  /// As people read it; a diagnosis with its sides.
  [[nodiscard]] std::string to_text() const;
  /// Throws it: a CommunicationError where the exit code is that of one, else an Error.
  [[noreturn]] void raise() const;
};

/// A rank's first words; everything else is heard only after them.
struct Hello {
  std::string token;
  int rank = 0;
  int world_size = 1;
  int pid = 0;
  std::string host;
};
struct Welcome {};
struct Refused {
  std::string reason;
};

struct StoreRequest {
  enum class Kind : std::uint8_t { set, get, add, barrier };
  std::int64_t id = 0;
  Kind kind = Kind::set;
  std::string key;
  std::string value;       ///< For set: any bytes.
  std::int64_t delta = 0;  ///< For add.
  double timeout_s = 0.0;  ///< For get and barrier.
};
struct StoreReply {
  std::int64_t id = 0;
  std::string value;        ///< For get.
  std::int64_t number = 0;  ///< For add: the sum.
  std::optional<RunFailure> failure;
};

/// A rank's sign of life, with FlightEntry::describe() of what it did. The rendezvous answers each.
struct Beat {
  std::string last_posted;
  std::string last_ended;
};

/// A call of a collective, or one half of a message, as the rendezvous compares it with the
/// others'.
struct CallFingerprint {
  std::string group;
  std::vector<int> members;  ///< World ranks, by rank in the group.
  int instance = 0;
  int member = 0;  ///< The caller's rank in the group.
  bool is_message = false;
  bool sends = false;  ///< For a message.
  // As in CallRecord; `root` is the peer of a message.
  std::string name;
  std::string label;
  ReduceOp reduce = ReduceOp::sum;
  bool reduces = false;
  DType dtype = DType::fp32;
  int root = -1;
  std::int64_t count = 0;
  std::uint64_t counts_hash = 0;
  std::int64_t padding = 0;
  TrafficClass traffic = TrafficClass::payload;
  std::string file;
  int line = 0;
  std::string function;

  /// Points into this, and has no site.
  [[nodiscard]] CallRecord record() const;
  /// With a site that lasts, and pointing into this for the rest.
  [[nodiscard]] CallRecord record_with_site() const;
};

struct FailureReport {
  RunFailure failure;
  FlightRecord flight;
};
/// The answer to Abort.
struct FlightNote {
  FlightRecord flight;
};
/// A rank has done all it had to; the rendezvous answers with the same, and the connection ends.
struct End {};
struct Abort {
  RunFailure failure;
};

/// The index of the alternative is the type byte of its frame.
using RendezvousMessage = std::variant<Hello, Welcome, Refused, StoreRequest, StoreReply, Beat,
                                       CallFingerprint, FailureReport, FlightNote, End, Abort>;

/// Limits that the sender keeps to; longer texts of reports are cut.
inline constexpr std::size_t kMaxKeyBytes = 256;
inline constexpr std::size_t kMaxValueBytes = std::size_t{1} << 18U;
inline constexpr double kMaxTimeoutSeconds = 7 * 24 * 3600.0;
inline constexpr int kMaxRendezvousRanks = 16384;

/// Type and payload together are never longer.
inline constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 20U;

struct Frame {
  std::uint8_t type = 0;
  std::string payload;
};

/// REQUIRES: the payload is shorter than kMaxFrameBytes.
[[nodiscard]] std::string encode_frame(std::uint8_t type, std::string_view payload);

/// Takes any bytes in any pieces and gives frames. A length that is not allowed ends it before
/// memory is taken for it: the stream cannot be understood from there on.
class FrameDecoder {
 public:
  explicit FrameDecoder(std::size_t max_bytes = kMaxFrameBytes) : max_bytes_(max_bytes) {}

  /// Frames from now on may be as long as this: a peer is trusted with more once it is known.
  void set_max_bytes(std::size_t max_bytes) { max_bytes_ = max_bytes; }
  /// False once the stream is broken. Holds at most what was fed and not yet taken.
  bool feed(std::string_view bytes);
  /// The next whole frame, or nothing.
  [[nodiscard]] std::optional<Frame> next();
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  std::size_t max_bytes_;
  std::string buffer_;
  std::size_t taken_ = 0;  // Bytes taken from the buffer's front.
  bool broken_ = false;
};

/// A whole frame.
[[nodiscard]] std::string encode_message(const RendezvousMessage& message);
/// Nothing, if the frame is no message: every field is there, has its type and keeps to its limits.
[[nodiscard]] std::optional<RendezvousMessage> decode_message(const Frame& frame);

/// An equal text that lasts as long as the process: a CallSite that comes from another process
/// holds such `const char*`. Equal texts share it. It is bounded: long texts are cut, and after
/// some thousand different ones all further ones read "...".
[[nodiscard]] const char* lasting_text(std::string_view text);

}  // namespace shardsim
