#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backends/call_record.hpp"
#include "backends/rendezvous/flight_recorder.hpp"
#include "backends/rendezvous/frame.hpp"
#include "backends/rendezvous/run_failure.hpp"

// Messages between ranks and the rendezvous, and their form on the wire.
namespace shardsim {

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

/// A whole frame.
[[nodiscard]] std::string encode_message(const RendezvousMessage& message);
/// Nothing, if the frame is no message: every field is there, has its type and keeps to its limits.
[[nodiscard]] std::optional<RendezvousMessage> decode_message(const Frame& frame);

}  // namespace shardsim
