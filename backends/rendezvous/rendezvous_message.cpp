#include "backends/rendezvous/rendezvous_message.hpp"

#include <functional>
#include <mutex>
#include <set>
#include <utility>

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

constexpr std::size_t kMostTexts = 4096;
constexpr std::size_t kLongestText = 512;

struct TextPool {
  std::mutex mutex;
  std::set<std::string, std::less<>> texts;
};

}  // namespace

RunFailure RunFailure::from(const Error& error) {
  if (const auto* communication = dynamic_cast<const CommunicationError*>(&error)) {
    return from(communication->diagnosis(), error.exit_code());
  }
  return {.exit_code = error.exit_code(),
          .code = error.code(),
          .message = error.what(),
          .fix = error.fix()};
}

RunFailure RunFailure::from(Diagnosis diagnosis, ExitCode exit_code) {
  RunFailure failure{.exit_code = exit_code, .code = diagnosis.code};
  failure.diagnosis = std::move(diagnosis);
  return failure;
}

std::string RunFailure::to_text() const {
  if (diagnosis) return diagnosis->to_text();
  std::string text = code + ": " + message + "\n";
  if (!fix.empty()) text += "  = help: " + fix + "\n";
  return text;
}

void RunFailure::raise() const {
  if (diagnosis && exit_code == ExitCode::communication) throw CommunicationError(*diagnosis);
  if (diagnosis) throw Error(exit_code, code, diagnosis->to_text(), diagnosis->hint);
  throw Error(exit_code, code, message, fix);
}

CallRecord CallFingerprint::record() const {
  return {.name = name.c_str(),
          .reduce = reduce,
          .reduces = reduces,
          .dtype = dtype,
          .root = root,
          .count = count,
          .label = label.c_str(),
          .counts_hash = counts_hash,
          .padding = padding,
          .traffic = traffic};
}

CallRecord CallFingerprint::record_with_site() const {
  CallRecord record = this->record();
  record.site = {.file = lasting_text(file), .line = line, .function = lasting_text(function)};
  return record;
}

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

const char* lasting_text(std::string_view text) {
  static TextPool& pool = *new TextPool;  // Never destroyed: others may hold texts until the end.
  text = text.substr(0, kLongestText);
  if (text.empty()) return "";
  const std::lock_guard lock(pool.mutex);
  const auto found = pool.texts.find(text);
  if (found != pool.texts.end()) return found->c_str();
  if (pool.texts.size() == kMostTexts) return "...";
  return pool.texts.emplace(text).first->c_str();
}

}  // namespace shardsim
