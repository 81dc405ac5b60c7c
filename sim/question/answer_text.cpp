#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

#include "sim/question/answer.hpp"

namespace shardsim {
namespace {

constexpr std::size_t kScreenColumns = 100;
constexpr std::size_t kRowIndent = 19;  // Under the days.
constexpr std::size_t kMostOfName = 15;

std::string lines_of(const std::string& words, std::size_t indent = 2) {
  std::string text;
  const std::string before(indent, ' ');
  for (const std::string& line : wrap_to_width(words, kScreenColumns - indent, 2)) {
    text += before + line + "\n";
  }
  return text;
}

std::string figures_of(const AnswerRow& row) {
  const std::string range = row.has_range()
                                ? fmt::format("{} to {}", format_number(row.training.days.low),
                                              format_number(row.training.days.high))
                                : "by the model";
  return fmt::format(
      "{:>9}{:>17}{:>12}{:>11}{:>11}{:>14}", format_number(row.training.days.centre), range,
      format_amount(row.training.gpu_hours.centre, Digits::three),
      row.training.usd ? "$" + format_amount(row.training.usd->centre, Digits::three) : "no price",
      format_memory(row.best->device_bytes) + (row.best->is_tight ? "!" : ""), search_words(row));
}

std::string row_text(const AnswerRow& row, std::size_t name_columns) {
  std::string text =
      fmt::format("  {:>7}  {:<{}}", format_count(row.machine.num_gpus),
                  truncate_to_width(escape_untrusted(row.machine.gpu), name_columns), name_columns);
  if (row.best) text += figures_of(row);
  text += "\n";
  if (row.best) {
    text += lines_of(words_of(row.best->candidate), kRowIndent);
  }
  return text + lines_of(escape_untrusted(row.reason), kRowIndent);
}

std::string demands_of(const Answer& answer) {
  const Question& question = answer.question;
  std::string text;
  if (question.deadline_days) {
    text += fmt::format(" in {} days", format_number(*question.deadline_days));
  }
  if (question.budget_usd) {
    text += fmt::format("{} for at most ${}", text.empty() ? "" : ",",
                        format_amount(*question.budget_usd, Digits::given));
  }
  return text;
}

std::string heading_of(const Answer& answer) {
  std::string text = fmt::format("{} on {} tokens{}: {}\n", escape_untrusted(answer.model),
                                 format_amount(answer.tokens, Digits::given), demands_of(answer),
                                 count_of(answer.rows.size(), "machine"));
  text +=
      lines_of(fmt::format("{}, {} tokens per sequence, global batch {}", answer.precision,
                           format_count(answer.seq_len), format_count(answer.global_batch_size)));
  for (const std::string& words : answer.assumptions) {
    text += lines_of("assumed: " + escape_untrusted(words));
  }
  for (const std::string& words : answer.ignored) {
    text += lines_of("ignored: " + escape_untrusted(words));
  }
  if (!answer.not_modelled.empty()) {
    text += lines_of("not modelled: " + escape_untrusted(answer.not_modelled));
  }
  text += lines_of(downtime_words(answer.least_goodput, answer.most_goodput));
  if (!answer.question.tokens) {
    text += lines_of("days and GPU hours are for 1 T tokens (--tokens)");
  }
  return text;
}

std::string tight_of(const Answer& answer) {
  const bool is_tight = std::ranges::any_of(
      answer.rows, [](const AnswerRow& row) { return row.best && row.best->is_tight; });
  if (!is_tight) return {};
  return lines_of(
      fmt::format("! fits, but leaves less than {:.3g} % of the memory "
                  "(--memory-margin): it may run out of memory",
                  answer.memory_margin * kPercent));
}

std::string end_of(const Answer& answer) {
  if (answer.stop == SearchStop::interrupt) {
    return lines_of("Interrupted: rows with a gap may have better layouts.");
  }
  if (answer.stop == SearchStop::time_limit) {
    return lines_of(
        fmt::format("Stopped after {:.3g} s: in a row with a gap, the best possible "
                    "layout is faster by at most that gap.",
                    answer.spent_s));
  }
  const bool is_proven = std::ranges::all_of(answer.rows, &AnswerRow::is_complete);
  return is_proven ? lines_of("All searches are complete.") : std::string();
}

// A scale for the comparison of rows with a range and rows without.
// REQUIRES: a row has a range.
std::string unlike_words(const Answer& answer) {
  std::vector<double> factors;
  for (const AnswerRow& row : answer.rows) {
    if (!row.best || !row.has_range()) continue;
    factors.push_back(row.training.days.centre / row.training.days.by_the_model);
  }
  const auto [least, most] = std::ranges::minmax(factors);
  const std::string low = fmt::format("{:.2f}", least);
  const std::string high = fmt::format("{:.2f}", most);
  return fmt::format(
      "rows by the model alone rank beside best estimates: in rows with a range the best estimate "
      "is {} times the model's days",
      low == high ? low : low + " to " + high);
}

}  // namespace

std::string search_words(const AnswerRow& row) {
  if (row.is_complete) return "proven";
  if (!row.gap) return "open";
  return fmt::format("gap {} %", format_number(*row.gap * kPercent));
}

std::vector<std::string> evidence_words(const Answer& answer) {
  std::vector<std::string> told;
  std::vector<std::string> evidence;
  for (const AnswerRow& row : answer.rows) {
    if (!row.best || !row.has_range()) continue;
    if (std::ranges::find(told, row.machine.gpu) != told.end()) continue;
    told.push_back(row.machine.gpu);
    const MetricBand* const band = row.measured.band_of(metric::kStepTimeS);
    evidence.push_back(fmt::format("{}: the range holds {} ({})", row.machine.gpu, band_held(*band),
                                   band_evidence(*band, row.measured)));
  }
  std::size_t num_without = 0;
  for (const AnswerRow& row : answer.rows) {
    if (!row.best || row.has_range()) continue;
    ++num_without;
    evidence.push_back(fmt::format("{} {}: by the model alone, as {}",
                                   format_count(row.machine.num_gpus), row.machine.gpu,
                                   row.measured.no_error_band));
  }
  if (num_without > 0 && !told.empty()) evidence.push_back(unlike_words(answer));
  return evidence;
}

std::string to_table(const Answer& answer) {
  std::size_t name_columns = 8;
  for (const AnswerRow& row : answer.rows) {
    name_columns = std::max(name_columns, std::min(row.machine.gpu.size(), kMostOfName));
  }
  const char* const order = has_all_prices(answer) ? "cheapest first" : "fewest GPU hours first";
  std::string text =
      fmt::format("{}\n  {:>7}  {:<{}}{:>9}{:>17}{:>12}{:>11}{:>11}{:>14}\n", order, "GPUs", "GPU",
                  name_columns, "days", "range", "GPU hours", "price", "memory", "search");
  for (const AnswerRow& row : answer.rows) text += row_text(row, name_columns);
  return text;
}

std::string to_text(const Answer& answer, const AnswerTextOptions& options) {
  std::string text = heading_of(answer) + "\n" + to_table(answer);
  text += "\n";
  for (const std::string& words : evidence_words(answer)) text += lines_of(escape_untrusted(words));
  text += tight_of(answer) + end_of(answer);
  if (!options.command.empty()) text += "\nnext: " + options.command + "\n";
  return text;
}

}  // namespace shardsim
