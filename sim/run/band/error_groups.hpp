#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "sim/run/band/measured_errors.hpp"

// Groups of measured runs that are alike: a run's band is made from the smallest of its groups that
// has enough of them (docs/decisions/0038-error-band.md).
namespace shardsim {

/// The properties that runs of a group share.
struct GroupLevel {
  bool experts = false;     ///< All with experts (Mixture of Experts), or all without.
  bool generation = false;  ///< GPUs of one generation.
  bool software = false;    ///< One framework.
};
/// From the smallest groups to the one of all runs. Each level shares one property less.
inline constexpr std::array<GroupLevel, 4> kGroupLevels{
    {{.experts = true, .generation = true, .software = true},
     {.experts = true, .generation = true},
     {.experts = true},
     {}}};

/// A group with fewer rows or fewer tables takes the band of the next larger one.
inline constexpr std::size_t kEnoughRows = 9;
inline constexpr std::size_t kEnoughTables = 2;

constexpr bool is_enough(std::size_t rows, std::size_t tables) {
  return rows >= kEnoughRows && tables >= kEnoughTables;
}

using MeasuredRows = std::vector<const MeasuredError*>;

/// The rows of one quantity that were predicted as a run with this software is: under a framework,
/// or without one. They point into `all`.
[[nodiscard]] MeasuredRows comparable_rows(const std::vector<MeasuredError>& all,
                                           const std::string& quantity,
                                           const std::string& software);

/// The rows of all tables but one.
[[nodiscard]] MeasuredRows without_table(const MeasuredRows& rows, const std::string& table);

/// The tables' names, each once, sorted.
[[nodiscard]] std::vector<std::string> tables_of(const MeasuredRows& rows);

/// The rows that share a level's properties with a run.
[[nodiscard]] MeasuredRows rows_like(const MeasuredRows& rows, const RunSetting& setting,
                                     std::size_t level);

/// The first level at which a run has enough rows, else the last.
[[nodiscard]] std::size_t level_of(const MeasuredRows& rows, const RunSetting& setting);

/// "dense models on ampere under megatron-lm-2021", "models with experts", "all models".
[[nodiscard]] std::string group_name(const RunSetting& setting, std::size_t level);

/// The property that runs of the next smaller group share besides: "on ampere". Empty for the first
/// level. Without a framework that is never the software.
[[nodiscard]] std::string dropped_words(const RunSetting& setting, std::size_t level);

}  // namespace shardsim
