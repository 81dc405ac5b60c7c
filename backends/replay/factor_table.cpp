#include "backends/replay/factor_table.hpp"

namespace shardsim {

namespace {

constexpr int kFinerGrids = 2;  // On either side.

}  // namespace

FactorTable::FactorTable(const std::function<double(double)>& quantile) {
  add(quantile, 0.0, 1.0, kFinerGrids);
}

// Fills a grid for the shares from `from` on. An end of (0, 1) itself stands for the middle of the
// part beside it.
std::size_t FactorTable::add(const std::function<double(double)>& quantile, double from,
                             double width, int finer) {
  const std::size_t index = grids_.size();
  grids_.emplace_back();
  const double part = width / static_cast<double>(kParts);
  for (std::size_t i = 0; i <= kParts; ++i) {
    double share = from + part * static_cast<double>(i);
    if (share == 0.0) share = part / 2.0;
    if (share == 1.0) share = 1.0 - part / 2.0;
    grids_[index].bounds[i] = quantile(share);
  }
  if (finer == 0) return index;
  if (from == 0.0) grids_[index].first = add(quantile, from, part, finer - 1);
  if (from + width == 1.0) grids_[index].last = add(quantile, 1.0 - part, part, finer - 1);
  return index;
}

double FactorTable::at_end(const Grid& grid, std::uint64_t bits) const {
  const std::uint64_t part = bits >> (64U - kBits);
  const std::uint64_t rest = bits << kBits;
  if (part == 0 && grid.first != 0) return at_end(grids_[grid.first], rest);
  if (part == kParts - 1 && grid.last != 0) return at_end(grids_[grid.last], rest);
  return grid.at(part, rest);
}

}  // namespace shardsim
