#include "strategies/checkpoint/names.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <new>

#include <xxhash.h>

#include "sim/kernel/text.hpp"

namespace shardsim {

Checksum::Checksum()
    : state_(XXH64_createState(), [](XXH64_state_s* state) { XXH64_freeState(state); }) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH64_reset(state_.get(), 0);
}

void Checksum::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH64_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const { return XXH64_digest(state_.get()); }

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

namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kRankPrefix = "rank-";
constexpr std::string_view kPayloadSuffix = ".safetensors";
constexpr std::string_view kTemporarySuffix = ".tmp";

std::string digits_of(std::int64_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string step_name(std::int64_t step) { return std::string(kStepPrefix) + digits_of(step, 8); }

std::string step_folder(const CheckpointPlace& place) {
  return place.directory + "/" + step_name(place.step);
}

std::optional<std::int64_t> parse_step_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  const auto step = parse_number<std::int64_t>(digits);
  if (!step || !all_digits(digits) || step_name(*step) != name) return std::nullopt;
  return step;
}

std::string rank_file_name(int rank, std::uint64_t checksum) {
  return std::string(kRankPrefix) + digits_of(rank, 4) + "-" + hex_of(checksum) +
         std::string(kPayloadSuffix);
}

std::string rank_temporary(int rank) {
  return std::string(kRankPrefix) + digits_of(rank, 4) + std::string(kTemporarySuffix);
}

bool is_rank_file_name(std::string_view name) {
  if (!name.starts_with(kRankPrefix)) return false;
  name.remove_prefix(kRankPrefix.size());
  if (name.ends_with(kTemporarySuffix)) {
    return all_digits(name.substr(0, name.size() - kTemporarySuffix.size()));
  }
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos || !name.ends_with(kPayloadSuffix)) return false;
  const std::string_view digest =
      name.substr(dash + 1, name.size() - dash - 1 - kPayloadSuffix.size());
  return all_digits(name.substr(0, dash)) && parse_hex(digest).has_value();
}

}  // namespace shardsim
