#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/kernel/metric_rows.hpp"

#include "sim/accuracy/measurement_table.hpp"

// Turns the rows of a table of measurements into scenarios: one JSON file per table, so that a
// table is added without C++. docs/guide/validation.md describes the format.
namespace shardsim {

/// The quantities that are predicted and were measured.
inline constexpr std::size_t kNumQuantities = 2;
inline constexpr std::size_t kStepTime = 0;
inline constexpr std::size_t kPeakMemory = 1;

struct QuantityInfo {
  std::string_view key;     ///< In mappings, the ratchet and JSON, with its unit.
  std::string_view title;   ///< For people.
  std::string_view metric;  ///< In a result.
};
inline constexpr std::array<QuantityInfo, kNumQuantities> kQuantities{{
    {"step_time_s", "step time", metric::kStepTimeS.name},
    {"peak_memory_bytes", "peak memory", metric::kMemoryPeakBytesMax.name},
}};

/// The name for peak memory in a table ("memory_is"), and the metric for it.
struct MemoryKind {
  std::string_view name;
  std::string_view metric;
};
inline constexpr std::array<MemoryKind, 5> kMemoryKinds{{
    {"tensors", metric::kMemoryPeakBytesMax.name},
    {"allocated", metric::kMemoryAllocatedPeakBytesMax.name},
    {"allocated_last_stage", metric::kMemoryAllocatedPeakBytesLastStage.name},
    {"reserved", metric::kMemoryReservedPeakBytesMax.name},
    {"device", metric::kMemoryDeviceBytesMax.name},
}};

/// An exception for some rows: those whose cells are all equal to those of `where`.
struct RowException {
  std::vector<std::pair<std::size_t, std::string>> where;  ///< Column and cell.
  std::vector<std::pair<std::string, RowValue>> set;       ///< Fields, after those of all rows.
  std::string cannot;  ///< Why such rows cannot be represented; empty if they can.
  std::string needs;   ///< As RowValue::needs.
  std::string apart;   ///< Why they are not in the headline; empty if they are.
};

struct TableMapping {
  std::string name;                ///< The file's name without ".json".
  std::string title;               ///< The measured runs.
  std::string trust;               ///< Grade of the table, "A" to "D".
  std::string assuming;            ///< Assumptions of the scenario beyond the table, with reasons.
  std::int64_t sample_stride = 1;  ///< The stride of --sample, from the first row.
  MeasurementTable table;
  std::size_t confirmed = 0;  ///< Columns that every table has.
  std::size_t source = 0;
  std::vector<std::size_t> label;  ///< Columns that tell rows apart.
  std::vector<std::size_t> by;     ///< Columns whose cells each have figures of their own.
  std::array<std::optional<RowConversion>, kNumQuantities> measured;
  /// The predicted metric for each quantity; for peak memory one of kMemoryKinds.
  std::array<std::string, kNumQuantities> metrics;
  std::vector<std::pair<std::string, RowConversion>> fields;
  std::vector<RowException> exceptions;
  /// The mapping with blanks around its "scenario", so that errors name the mapping's own lines.
  std::string scenario_text;
  std::string path;
  std::shared_ptr<const SourceText> text;  ///< The text that places in the mapping point into.
};

/// Reads the mapping and its table in the same folder. Throws ScenarioError with file and line:
/// E0926 (keys and types), E0927 (a missing column), E0928 (no such scenario field), those of the
/// table (E0929: all unknown words at once), and those of JSON.
[[nodiscard]] TableMapping read_table_mapping(const std::string& path);

}  // namespace shardsim
