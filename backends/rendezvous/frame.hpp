#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// How messages lie in the byte stream between a rank and the rendezvous: four bytes of length
// (of what follows, the highest byte first), one byte of type, the payload.
namespace shardsim {

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

}  // namespace shardsim
