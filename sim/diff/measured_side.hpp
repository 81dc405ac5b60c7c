#pragma once

#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "sim/diff/run_side.hpp"

// The output of real runs.
namespace shardsim {

/// The log of a Megatron-LM run (training_log in megatron/training/training.py, report_memory in
/// megatron/training/utils.py): the median of its iterations but for the first ones, and the
/// largest of its memory reports. Nothing if no line has the time of an iteration.
[[nodiscard]] std::optional<RunSide> read_megatron_log(std::istream& log);

/// The content of a JSON text, as far as its first level shows it.
struct JsonOutline {
  bool is_json = false;
  std::vector<std::string> keys;
  /// The trace, if it is one: GPU events by what they do, as Holistic Trace Analysis divides them.
  std::optional<RunSide> trace;

  [[nodiscard]] bool has(const std::string& key) const;
};

/// Reads the text once, whatever its size, and keeps of it no more than intervals.
[[nodiscard]] JsonOutline outline_json(std::istream& text);

}  // namespace shardsim
