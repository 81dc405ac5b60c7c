#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reports/result.hpp"

// The result on one screen, for people: at most 24 lines of at most 100 columns, only facts that
// the result holds. Programs read the JSON.
namespace shardsim {

/// The run in the words of the scenario. Reports do not know scenarios, so the caller fills it.
/// Empty parts are left out, and control characters in any of them are escaped.
struct TextHeadline {
  std::string name;       ///< The scenario's name.
  std::string model;      ///< "llama3-8b".
  std::string system;     ///< "8 x dgx-h100".
  std::string layout;     ///< "dp_shard 64, zero 3".
  std::string precision;  ///< "bf16".
  std::string batch;      ///< "global batch 128 x 8,192 tokens".
  std::int64_t ranks = 0;
  double device_memory_bytes = 0;  ///< Memory of one device; 0 if not known.
  std::int64_t steps = 0;          ///< Steps of the run.
  double tokens_total = 0;         ///< Tokens of the whole training; 0 if not given.
  std::string mfu_counts;          ///< "3 x forward's matrix products, chosen experts".
  std::string software;  ///< "priced as torchtitan-2025 (default)"; empty: by ideal kernels.
};

/// The facts of the run, in the order of pages and without empty parts: model, system, ranks...
[[nodiscard]] std::vector<std::string> facts_of(const TextHeadline& headline);

struct TextOptions {
  bool color = false;        ///< ANSI colours. The caller knows about terminals and NO_COLOR.
  int width = 100;           ///< Columns to use; taken as 80 below that, as 100 above.
  std::string next_command;  ///< The last line: what to run next; may be empty.
};

/// Parts that have no metric in `result` are left out. Excess lines are cut, least important first,
/// with a line that says so. Ends in a newline.
[[nodiscard]] std::string to_text(const Result& result, const TextHeadline& headline,
                                  const TextOptions& options);

/// All assumptions of a result, below their sources; those without a published source come first.
/// Lines of at most `width` columns; as many as it takes.
[[nodiscard]] std::string assumptions_text(const Result& result, std::size_t width = 100);

}  // namespace shardsim
