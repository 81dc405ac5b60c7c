#include "strategies/checkpoint/checksum.hpp"

#include <charconv>
#include <new>

#include <xxhash.h>

namespace shardsim {

// The library's own state is opaque.
struct Checksum::State {
  State() : hash(XXH64_createState()) {
    if (hash == nullptr) throw std::bad_alloc();
    XXH64_reset(hash, 0);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH64_freeState(hash); }
  XXH64_state_t* hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {}
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH64_update(state_->hash, bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const { return XXH64_digest(state_->hash); }

std::uint64_t checksum_of(std::string_view bytes) { return XXH64(bytes.data(), bytes.size(), 0); }

std::string hex_of(std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; value >>= 4U) text[i] = kDigits[value & 0xFU];
  return text;
}

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  // Only the one way of writing it: a changed digit must not pass for the same number.
  if (error != std::errc{} || end != text.data() + text.size() || hex_of(value) != text) {
    return std::nullopt;
  }
  return value;
}

}  // namespace shardsim
