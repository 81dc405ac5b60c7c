#include "strategies/model/element_chance.hpp"

#include <string>

#include "sim/kernel/hash.hpp"

namespace shardsim {

namespace {

constexpr unsigned kColumnBits = 24;  // Rows have the other 40.

std::uint64_t seed_of(const ElementPlaces& places, std::size_t run) {
  if (places.runs.empty()) return places.seed;
  RollingHash hash;
  hash.add(places.seed);
  hash.add(places.runs[run]);
  return hash.value();
}

}  // namespace

ElementChance::ElementChance(const ElementPlaces& places, CopyDirection direction, std::size_t run,
                             std::int64_t first)
    : places_(places),
      first_(first),
      stream_(seed_of(places, run),
              (direction == CopyDirection::rows ? "gradient by rows " : "gradient by columns ") +
                  std::to_string(places.layer)) {}

double ElementChance::uniform(std::int64_t row, std::int64_t column) const {
  if (places_.runs.empty()) {
    row = places_.part.token_of(places_.first_token + first_ + row, places_.seq_len) +
          places_.first_sample * places_.seq_len;
  }
  const auto place = (static_cast<std::uint64_t>(row) << kColumnBits) |
                     static_cast<std::uint64_t>(places_.first_column + column);
  return stream_.uniform(place);
}

}  // namespace shardsim
