#pragma once

#include <functional>
#include <optional>

#include "backends/process_backend.hpp"

#include "sim/real/compare_rank.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

/// The setting of a rank of a real run besides its backend.
struct RankSetting {
  const Experiment* experiment = nullptr;
  /// RunHooks::wrap_world; may be empty.
  std::function<std::unique_ptr<Communicator>(Communicator& world)> wrap_world;
  /// Called before the training and after it, when no operation of it is under way here; all ranks
  /// wait for each other in it. May be empty.
  std::function<void()> meet;
  /// The backend has rings only, whatever the scenario's network would choose.
  bool rings_only = false;
  /// Sums are formed in another order than in the simulation: measures the effect of that alone.
  bool other_order = false;
};

/// Trains this process's rank for real, and nothing more. Throws what the training throws.
[[nodiscard]] RankFigures train_for_real(const RankSetting& setting, ProcessBackend& backend);

/// Trains this process's rank for real, simulates it, and compares. Throws what the training
/// throws.
[[nodiscard]] MeasuredRank measure_rank(const RankSetting& setting, ProcessBackend& backend);

}  // namespace shardsim
