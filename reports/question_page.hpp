#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/step_range.hpp"

// A planner's question about several machines, answered on a page to send upwards.
namespace shardsim {

/// A machine with its best layout. Without one there are no ranges.
struct QuestionRow {
  std::string machine;    ///< "512 x b200"
  std::string layout;     ///< "tp2 dp64 zero3 mb1 selective"; may be empty.
  bool holds = false;     ///< It meets the deadline and the budget, where there are such.
  bool is_open = false;   ///< Its search was stopped before it had a layout.
  bool is_tight = false;  ///< It fits, but leaves less than the margin.
  std::string reason;     ///< Why it is the first, or why it is not, in one sentence.
  std::string search;     ///< "proven", "gap 2 %"
  std::optional<BandRange> days;
  std::optional<BandRange> gpu_hours;
  std::optional<BandRange> usd;
  std::int64_t device_bytes = 0;    ///< The memory that it needs of a GPU,
  std::int64_t capacity_bytes = 0;  ///< and what that has.
};

struct QuestionPage {
  std::string title;  ///< "llama3-70b on 10 T tokens"
  std::string facts;  ///< "bf16, 8,192 tokens per sequence, global batch 1,024"
  std::string order;  ///< "cheapest first"
  std::optional<double> deadline_days;
  std::optional<double> budget_usd;
  std::vector<QuestionRow> rows;   ///< In the order of the answer.
  std::vector<std::string> notes;  ///< On ranges, downtime and open searches, in sentences.
  std::vector<std::string> assumptions;
};

/// One file that requests nothing from anywhere and opens from disk. Equal input gives equal bytes;
/// no text of the input is ever markup.
[[nodiscard]] std::string to_html(const QuestionPage& page);

}  // namespace shardsim
