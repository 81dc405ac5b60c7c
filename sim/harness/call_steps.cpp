#include "sim/harness/call_steps.hpp"

#include <stdexcept>

#include "backends/rendezvous/rendezvous_message.hpp"

namespace shardsim {

namespace {

// Seven bits a byte, the lowest first; the sign is the lowest bit.
constexpr unsigned kBitsOfByte = 7;
constexpr std::uint64_t kMoreFollows = std::uint64_t{1} << kBitsOfByte;

[[noreturn]] void refuse_steps() { throw std::runtime_error("these are no steps of a rank"); }

}  // namespace

void StepWriter::put(std::int64_t number) {
  auto bits =
      (static_cast<std::uint64_t>(number) << 1U) ^ static_cast<std::uint64_t>(number >> 63U);
  while (bits >= kMoreFollows) {
    text_ += static_cast<char>((bits % kMoreFollows) | kMoreFollows);
    bits >>= kBitsOfByte;
  }
  text_ += static_cast<char>(bits);
}

// The number of a text that was there before; 0: a new one, with its length and bytes.
void StepWriter::put_text(std::string_view text) {
  const auto known = known_.find(text);
  if (known != known_.end()) return put(known->second);
  known_.emplace(text, std::ssize(known_) + 1);
  put(0);
  put(std::ssize(text));
  text_ += text;
}

std::int64_t StepReader::take() {
  std::uint64_t bits = 0;
  for (unsigned shift = 0; shift < 64; shift += kBitsOfByte) {
    if (left_.empty()) refuse_steps();
    const auto byte = static_cast<std::uint64_t>(static_cast<unsigned char>(left_.front()));
    left_.remove_prefix(1);
    bits |= (byte % kMoreFollows) << shift;
    if (byte < kMoreFollows) {
      return static_cast<std::int64_t>(bits >> 1U) ^ -static_cast<std::int64_t>(bits & 1U);
    }
  }
  refuse_steps();
}

const std::string& StepReader::take_text() {
  const std::int64_t number = take();
  if (number < 0 || number > std::ssize(known_)) refuse_steps();
  if (number > 0) return known_[static_cast<std::size_t>(number - 1)];
  const std::int64_t length = take();
  if (length < 0 || length > std::ssize(left_)) refuse_steps();
  known_.emplace_back(left_.substr(0, static_cast<std::size_t>(length)));
  left_.remove_prefix(static_cast<std::size_t>(length));
  return known_.back();
}

void StepReader::operator()(const char*& text) { text = lasting_text(take_text()); }

}  // namespace shardsim
