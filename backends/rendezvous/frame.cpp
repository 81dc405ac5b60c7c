#include "backends/rendezvous/frame.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kLengthBytes = 4;

std::size_t read_length(std::string_view bytes) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length = length << 8U | static_cast<unsigned char>(bytes[i]);
  }
  return length;
}

}  // namespace

std::string encode_frame(std::uint8_t type, std::string_view payload) {
  const std::size_t length = payload.size() + 1;
  std::string frame;
  frame.reserve(kLengthBytes + length);
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    frame += static_cast<char>(length >> 8U * (kLengthBytes - 1 - i) & 255U);
  }
  frame += static_cast<char>(type);
  frame += payload;
  return frame;
}

bool FrameDecoder::feed(std::string_view bytes) {
  if (broken_) return false;
  buffer_ += bytes;
  return true;
}

std::optional<Frame> FrameDecoder::next() {
  const std::string_view rest = std::string_view(buffer_).substr(taken_);
  if (broken_ || rest.size() < kLengthBytes) return std::nullopt;
  const std::size_t length = read_length(rest);
  if (length == 0 || length > max_bytes_) {
    broken_ = true;
    buffer_ = {};
    taken_ = 0;
    return std::nullopt;
  }
  if (rest.size() < kLengthBytes + length) {
    buffer_.erase(0, taken_);
    taken_ = 0;
    return std::nullopt;
  }
  Frame frame;
  frame.type = static_cast<std::uint8_t>(rest[kLengthBytes]);
  frame.payload = rest.substr(kLengthBytes + 1, length - 1);
  taken_ += kLengthBytes + length;
  if (taken_ == buffer_.size()) {
    buffer_.clear();
    taken_ = 0;
  }
  return frame;
}

}  // namespace shardsim
