#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/traffic_counters.hpp"

#include "strategies/training/train.hpp"

namespace shardsim {

/// All values that one rank shows of its training, step by step: gradients before the optimizer,
/// then parameters, optimizer state and the loss.
class StateImage final : public TrainingObserver {
 public:
  enum Kind : std::uint8_t { gradients, parameters, optimizer_state, loss };
  static constexpr std::size_t kNumKinds = 4;

  struct Piece {
    std::int64_t step = 0;
    Kind kind = gradients;
    std::string state;       ///< Name of the optimizer state; else empty.
    int parameter = 0;       ///< Index among the parameters of this rank.
    std::int64_t first = 0;  ///< Element of the parameter.
    std::vector<double> values;
    bool of_rank_alone = false;  ///< StateKind::rank_state: replicas hold others.
  };

  void gradients_ready(std::int64_t step, const GradientSync& sync) override;
  void step_ends(std::int64_t step, const GradientSync& sync, std::optional<double> loss) override;

  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  void keep(std::int64_t step, const GradientSync& sync, StateKind kind, Kind kept_as);

  std::vector<Piece> pieces_;
};

/// The difference between two images of the same rank.
struct ImageDifference {
  std::int64_t num_values = 0;
  std::int64_t num_different = 0;  ///< In any bit; NaN equals NaN.
  /// max|a-b| / max(max|b|, 1e-6 x max|b| over all tensors of the kind and step), by kind.
  std::array<double, StateImage::kNumKinds> max_rel_error{};
  std::string first;  ///< The first difference, with both values; empty: none.
};

/// `expected` is b. Images of unlike pieces differ in all values. `names`: the parameters'.
[[nodiscard]] ImageDifference compare_images(const StateImage& actual, const StateImage& expected,
                                             const std::vector<std::string>& names);

/// One group's traffic as this rank counted it, and as the simulation did.
struct GroupReport {
  std::string name;
  TrafficCounters measured;
  TrafficCounters simulated;
  SentByOperation measured_by_operation;
  SentByOperation simulated_by_operation;  ///< The whole group's, at its first member.
};

/// Bytes and messages that this rank handed to the network.
struct SentTotals {
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
  friend bool operator==(const SentTotals&, const SentTotals&) = default;
};

/// The report of one process after its run: its values and bytes beside the simulation's. It
/// travels as text to the reporting rank.
struct MeasuredRank {
  int rank = 0;
  ImageDifference values;
  /// The effect of another order of sums alone in the simulation, by kind; 0 if not requested.
  std::array<double, StateImage::kNumKinds> order_error{};
  std::int64_t peak_bytes = 0;
  std::int64_t host_peak_bytes = 0;
  std::int64_t simulated_peak_bytes = 0;
  std::int64_t simulated_host_peak_bytes = 0;
  std::vector<GroupReport> groups;
  std::int64_t num_links = 0;
  std::string first_link_difference;  ///< Empty: none.
  /// As the library below counts it; empty: it does not.
  std::optional<SentTotals> wire;
  /// Received over the loopback interface by all programs meanwhile; empty: not counted.
  std::optional<std::int64_t> loopback_bytes;
  /// Hashes that ranks of one replica group must share bit by bit: by step and kind, for the steps
  /// that each has; none if it never trains.
  std::string replica_group;
  std::vector<std::string> hashes;
  std::int64_t num_expected_hashes = 0;  ///< In the simulation.
};

[[nodiscard]] std::string to_text(const MeasuredRank& report);
/// Throws Error (E1070) for text that is no report.
[[nodiscard]] MeasuredRank rank_report_of(const std::string& text);

}  // namespace shardsim
