#include "strategies/checkpoint/names.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "strategies/checkpoint/checksum.hpp"

namespace shardsim {

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
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc{} || !all_digits(digits) || step_name(step) != name) return std::nullopt;
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
