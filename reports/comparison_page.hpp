#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/result.hpp"

// Two to four runs beside each other, as a page to send to people.
namespace shardsim {

/// A part of a step, in seconds, or of the memory of the fullest rank, in bytes.
struct ComparedPart {
  std::string name;
  double amount = 0;
};

/// A headline number of one side, as compared with the first side.
struct ComparedNumber {
  std::string name;    ///< "Step time"
  std::string value;   ///< "about 1.66 s"
  std::string note;    ///< "by the model 1.57 s; 80 % of runs: 1.53 to 1.85 s"
  std::string change;  ///< "12.3 % less than A"; empty on the first side, and if it is the same.
};

struct ComparedSide {
  std::string letter;   ///< "A"
  std::string file;     ///< The file, with its overrides.
  std::string what;     ///< The scenario's name, or the kind of measurement.
  std::string layout;   ///< "tp 8, pp 4, dp_shard 16, zero 1"; empty: unknown.
  std::string verdict;  ///< "fits", "does not fit"; empty: unknown.
  bool is_bad = false;  ///< Whether the verdict is bad.
  std::vector<ComparedNumber> numbers;
  std::vector<ComparedPart> time;    ///< They sum to the step.
  std::vector<ComparedPart> memory;  ///< Tensors of the fullest rank, then what is no tensor.
  double step_s = 0;
  double device_bytes = 0;        ///< Memory of a GPU; 0: unknown.
  std::vector<MetricBand> bands;  ///< Around the step and the memory.
};

/// One name, and a text for each side; empty texts are missing values.
struct ComparedRow {
  std::string name;
  std::vector<std::string> values;
};

struct ComparisonPage {
  std::string title;                   ///< "3 runs compared"
  std::vector<std::string> sentences;  ///< One for each side after the first.
  std::vector<ComparedSide> sides;     ///< Two to four.
  std::vector<ComparedRow> fields;     ///< Fields of the scenario that are not the same.
  std::vector<ComparedRow> traffic;    ///< By axis, in words.
  std::vector<std::string> notes;
};

/// One file that requests nothing from anywhere and opens from disk; charts need no script. Equal
/// input gives equal bytes; no text of the input is ever markup.
[[nodiscard]] std::string to_html(const ComparisonPage& page);

}  // namespace shardsim
