#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace shardsim {

/// A random factor of prices, as a table of its quantiles: linear between 1,024 of them, and in the
/// outermost part on either side between 1,024 more, three times over. So a draw is a lookup.
class FactorTable {
 public:
  /// `quantile`: the factor that a share of all draws, in (0, 1), stays below; ascending.
  explicit FactorTable(const std::function<double(double)>& quantile);

  /// The factor of 64 uniform bits.
  [[nodiscard]] double at(std::uint64_t bits) const {
    const Grid& grid = grids_.front();
    const std::uint64_t part = bits >> (64U - kBits);
    if (part - 1 < kParts - 2) return grid.at(part, bits << kBits);
    return at_end(grid, bits);
  }

 private:
  static constexpr unsigned kBits = 10;
  static constexpr std::size_t kParts = std::size_t{1} << kBits;
  struct Grid {
    [[nodiscard]] double at(std::size_t part, std::uint64_t bits) const {
      const double low = bounds[part];
      return low + static_cast<double>(bits >> 11U) * 0x1p-53 * (bounds[part + 1] - low);
    }
    std::array<double, kParts + 1> bounds{};
    std::size_t first = 0;  ///< The grid of its first part, and
    std::size_t last = 0;   ///< of its last; 0: it has none.
  };
  // Bits are in the first or the last part.
  [[nodiscard]] double at_end(const Grid& grid, std::uint64_t bits) const;
  std::size_t add(const std::function<double(double)>& quantile, double from, double width,
                  int finer);

  std::vector<Grid> grids_;
};

}  // namespace shardsim
