#include "sim/accuracy/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/hardware/nccl/overrides.hpp"
#include "sim/hardware/nccl/prices.hpp"

namespace shardsim {

namespace {

double interpolated_median(std::vector<double> values) {
  const auto middle = static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  const double upper = values[static_cast<std::size_t>(middle)];
  if (values.size() % 2 == 1) return upper;
  return (*std::max_element(values.begin(), values.begin() + middle) + upper) / 2;
}

// 1 / f, given a.
double slowness(const std::vector<CalibrationPoint>& points, double added_us) {
  std::vector<double> values;
  for (const CalibrationPoint& point : points) {
    if (!is_large(point)) continue;
    values.push_back((point.measured_us - point.latency_us - added_us) / point.transfer_us);
  }
  return interpolated_median(std::move(values));
}

// a, given 1 / f.
double added_latency(const std::vector<CalibrationPoint>& points, double slowness) {
  std::vector<double> values;
  for (const CalibrationPoint& point : points) {
    if (!is_small(point)) continue;
    values.push_back(point.measured_us - point.latency_us - point.transfer_us * slowness);
  }
  return std::max(kLeastAddedLatency, interpolated_median(std::move(values)));
}

// Every rank sends to the next at once; the slowest message is the operation.
NcclPrice slowest_message(const NcclPrices& prices, int ranks, std::int64_t bytes) {
  NcclPrice slowest;
  for (int rank = 0; rank < ranks; ++rank) {
    const NcclPrice price = prices.message(rank, (rank + 1) % ranks, bytes);
    if (price.latency_us + price.transfer_us > slowest.latency_us + slowest.transfer_us) {
      slowest = price;
    }
  }
  return slowest;
}

using Points = std::vector<CalibrationPoint>;

// Every other size of each table from `first` on: two such halves are all.
void add_half(Points& half, const Points& points, std::size_t first) {
  for (std::size_t i = first; i < points.size(); i += 2) half.push_back(points[i]);
}

void require_sizes(const Points& points, const FittedParts& parts, const PricedTable& example) {
  const PointCounts counts = count_points(points);
  if (counts.suffice(parts, kLeastSizes)) return;
  const bool lacks_large = parts.bandwidth && counts.large < kLeastSizes;
  throw UsageError(
      "E0948",
      fmt::format("there are too few {} sizes {}: half of them leave {} {}, and {} are needed "
                  "(sizes at which NCCL's model expects the {} to take {} times as long as the {})",
                  lacks_large ? "large" : "small", words_of(example.tier),
                  lacks_large ? counts.large : counts.small, lacks_large ? "large" : "small",
                  kLeastSizes, lacks_large ? "bytes" : "latency", kDominates,
                  lacks_large ? "latency" : "bytes"),
      fmt::format("run {} -b 8 -e 8G -f 2 and give all of its output, or fit the other part "
                  "alone with --fit {}",
                  test_program_of(example.layout.operation),
                  lacks_large ? "latency" : "bandwidth"));
}

FittedCorrection fitted(const Points& points, const FittedParts& parts,
                        const TierCalibration& tier) {
  constexpr double kMost = 100.0;  // The largest value of the field, and its inverse.
  const FittedCorrection fit = fit_correction(points, parts, tier.given);
  const FittedCorrection correction = rounded(fit, parts);
  if (!parts.bandwidth) return correction;
  if (!(correction.bandwidth_factor * kMost > 1.0 && correction.bandwidth_factor < kMost)) {
    throw UsageError(
        "E0951",
        fmt::format("{} the measured bandwidth would be {:.3g} times NCCL's: these are "
                    "not times of this system",
                    words_of(tier.tier), correction.bandwidth_factor),
        "check --system, --ranks and --nodes");
  }
  return correction;
}

TierCalibration calibrate_tier(const std::vector<PricedTable>& tables, NetworkTier tier,
                               const FittedParts& parts, const FittedCorrection& given) {
  TierCalibration result{.tier = tier, .given = given};
  Points all;
  std::array<Points, 2> halves;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].tier != tier) continue;
    result.tables.push_back(i);
    for (std::size_t half = 0; half < halves.size(); ++half) {
      add_half(halves[half], tables[i].points, half);
      add_half(all, tables[i].points, half);
    }
  }
  if (result.tables.empty()) return result;
  for (const Points& half : halves) require_sizes(half, parts, tables[result.tables.front()]);
  result.correction = fitted(all, parts, result);
  const std::array<FittedCorrection, 2> by_half = {fitted(halves[0], parts, result),
                                                   fitted(halves[1], parts, result)};
  for (const std::size_t i : result.tables) {
    const Points& points = tables[i].points;
    CalibratedTable errors{.before = mean_error(points, given),
                           .after = mean_error(points, result.correction)};
    for (std::size_t half = 0; half < halves.size(); ++half) {
      Points unseen;
      add_half(unseen, points, 1 - half);
      errors.held_out += mean_error(unseen, by_half[half]) * static_cast<double>(unseen.size());
    }
    errors.held_out /= static_cast<double>(points.size());
    if (count_points(points).suffice(parts, kLeastSizes)) {
      errors.alone = rounded(fit_correction(points, parts, given), parts);
    }
    result.errors.push_back(errors);
  }
  return result;
}

}  // namespace

bool is_large(const CalibrationPoint& point) {
  return point.transfer_us >= kDominates * point.latency_us;
}

bool is_small(const CalibrationPoint& point) {
  return point.latency_us >= kDominates * point.transfer_us;
}

bool PointCounts::suffice(const FittedParts& parts, std::size_t least) const {
  return (!parts.bandwidth || large >= least) && (!parts.latency || small >= least);
}

PointCounts count_points(const std::vector<CalibrationPoint>& points) {
  return {static_cast<std::size_t>(std::ranges::count_if(points, is_large)),
          static_cast<std::size_t>(std::ranges::count_if(points, is_small))};
}

// A change of a moves 1 / f by less than a / transfer of a large size. That moves a by the transfer
// of a small one: far less, so that some rounds are enough.
FittedCorrection fit_correction(const std::vector<CalibrationPoint>& points,
                                const FittedParts& parts, const FittedCorrection& given) {
  constexpr int kMostRounds = 200;
  constexpr double kSettledUs = 1e-9;
  double inverse = parts.bandwidth ? 1.0 : 1.0 / given.bandwidth_factor;
  double added_us = parts.latency ? 0.0 : given.added_latency_us;
  for (int round = 0; round < kMostRounds; ++round) {
    const double before = added_us;
    if (parts.bandwidth) inverse = slowness(points, added_us);
    if (parts.latency) added_us = added_latency(points, inverse);
    if (std::abs(added_us - before) < kSettledUs) break;
  }
  return {.bandwidth_factor = parts.bandwidth ? 1.0 / inverse : given.bandwidth_factor,
          .added_latency_us = added_us};
}

FittedCorrection rounded(const FittedCorrection& correction, const FittedParts& parts) {
  FittedCorrection result = correction;
  if (parts.bandwidth) result.bandwidth_factor = std::round(result.bandwidth_factor * 1e4) / 1e4;
  // Plus 0, so that nothing is -0.
  if (parts.latency) {
    result.added_latency_us = std::round(result.added_latency_us * 1e2) / 1e2 + 0.0;
  }
  return result;
}

double mean_error(const std::vector<CalibrationPoint>& points, const FittedCorrection& correction) {
  double sum = 0.0;
  for (const CalibrationPoint& point : points) {
    sum += std::abs(correction.predict(point) / point.measured_us - 1.0);
  }
  return points.empty() ? 0.0 : sum / static_cast<double>(points.size());
}

const char* words_of(NetworkTier tier) {
  return tier == NetworkTier::inside ? "within a node" : "between nodes";
}

std::vector<CalibrationPoint> price_sizes(const Cluster& cluster, TestedOperation operation,
                                          const std::vector<std::int64_t>& sizes) {
  std::vector<int> members(static_cast<std::size_t>(cluster.num_ranks()));
  std::iota(members.begin(), members.end(), 0);
  const GroupLayout layout(cluster, members);
  const DoubleTree tree(layout);
  NcclPrices prices(cluster);
  const CollectiveRow* const row = collective_of(operation);
  std::vector<CalibrationPoint> points;
  for (const std::int64_t size : sizes) {
    NcclPrice price;
    if (row == nullptr) {
      price = slowest_message(prices, layout.size(), size);
    } else {
      CollectiveRequest request;
      request.kind = *row;
      request.layout = &layout;
      request.tree = row->reduces_to_all() ? &tree : nullptr;
      request.bytes = size;
      request.largest_chunk = (size + layout.size() - 1) / layout.size();
      price = prices.collective(request);
    }
    points.push_back({.latency_us = price.latency_us, .transfer_us = price.transfer_us});
  }
  return points;
}

std::vector<TierCalibration> calibrate(const std::vector<PricedTable>& tables,
                                       const FittedParts& parts, const GivenCorrections& given) {
  std::vector<TierCalibration> tiers;
  for (const NetworkTier tier : kNetworkTiers) {
    TierCalibration result = calibrate_tier(tables, tier, parts, given.of(tier));
    if (!result.tables.empty()) tiers.push_back(std::move(result));
  }
  return tiers;
}

}  // namespace shardsim
