#include "sim/question/answer.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/time.hpp"

#include "reports/units.hpp"
#include "sim/run/whole_training.hpp"

namespace shardsim {

namespace {

constexpr double kHoursPerDay = 24.0;
constexpr double kPercent = 100.0;

StepRange times(const StepRange& range, double factor) {
  return {range.low * factor, range.centre * factor, range.high * factor,
          range.by_the_model * factor};
}

std::string dollars(double usd) { return "$" + format_amount(usd, Digits::three); }

std::string days_words(const AnswerRow& row) {
  std::string text = format_number(row.days.centre) + " days";
  if (row.days.low == row.days.high) return text;
  return text +
         fmt::format(" ({} to {})", format_number(row.days.low), format_number(row.days.high));
}

// "late by 30 days, over the budget by $2 M": what the row misses.
void find_misses(const Answer& answer, AnswerRow& row) {
  std::string text;
  const Question& question = answer.question;
  if (question.deadline_days && row.days.centre > *question.deadline_days) {
    row.lost_to.emplace_back("deadline");
    text = fmt::format("late: {} of {}", days_words(row), format_number(*question.deadline_days));
  }
  if (question.budget_usd && row.usd && row.usd->centre > *question.budget_usd) {
    row.lost_to.emplace_back("budget");
    text += fmt::format("{}over the budget: {} of {}", text.empty() ? "" : "; ",
                        dollars(row.usd->centre), dollars(*question.budget_usd));
  }
  row.fate = row.lost_to.empty() ? MachineFate::holds : MachineFate::misses;
  row.reason = text;
}

// What the range of a row that holds could still miss.
std::string risk_of(const Answer& answer, const AnswerRow& row) {
  const Question& question = answer.question;
  std::string text;
  if (question.deadline_days && row.days.high > *question.deadline_days) {
    text = fmt::format("the high end of the range is late: {} days", format_number(row.days.high));
  }
  if (question.budget_usd && row.usd && row.usd->high > *question.budget_usd) {
    text +=
        fmt::format("{} over the budget: {}",
                    text.empty() ? "the high end of the range is" : " and", dollars(row.usd->high));
  }
  return text;
}

void explain_no_layout(const Answer& answer, AnswerRow& row) {
  if (row.fate == MachineFate::no_layout) {
    row.lost_to.emplace_back("batch");
    return;
  }
  if (row.is_complete) {
    row.fate = MachineFate::does_not_fit;
    row.lost_to.emplace_back("memory");
    row.reason = "does not fit";
    if (!row.least_that_did_not_fit.empty()) {
      row.reason += fmt::format(": {} needs {} of {}", row.least_that_did_not_fit,
                                format_memory(row.least_bytes_not_fitting),
                                format_memory(row.memory_capacity_bytes));
    }
    return;
  }
  row.fate = MachineFate::not_found;
  row.lost_to.emplace_back("time limit");
  row.reason = fmt::format("no layout that fits was found in {:.3g} s; give --time-limit more",
                           answer.time_limit_s);
}

// "$310 k (8.1 %) more than the first, 40 days sooner".
std::string against_first(const Answer& answer, const AnswerRow& first, const AnswerRow& row) {
  const double more = cost_of_row(answer, row) - cost_of_row(answer, first);
  const double sooner = first.days.centre - row.days.centre;
  std::string text =
      has_all_prices(answer) ? dollars(more) : format_amount(more, Digits::three) + " GPU hours";
  text += fmt::format(
      " ({:.2g} %) more than the first, {} days {}", more / cost_of_row(answer, first) * kPercent,
      format_number(sooner < 0 ? -sooner : sooner), sooner < 0 ? "later" : "sooner");
  return text;
}

}  // namespace

bool has_all_prices(const Answer& answer) {
  return std::ranges::all_of(answer.question.machines, [](const MachineChoice& machine) {
    return machine.usd_per_gpu_hour.has_value();
  });
}

double cost_of_row(const Answer& answer, const AnswerRow& row) {
  return has_all_prices(answer) && row.usd ? row.usd->centre : row.gpu_hours.centre;
}

void judge_row(const Answer& answer, const Experiment& experiment, AnswerRow& row) {
  row.lost_to.clear();
  if (!row.best) {
    explain_no_layout(answer, row);
    return;
  }
  row.measured = measured_like(experiment, *row.best);
  row.goodput = row.measured.number(metric::kGoodputFraction);
  row.tokens_per_s = range_against_step(row.measured, row.best->tokens_per_s);
  const double days =
      training_days(answer.tokens, row.best->tokens_per_s * row.goodput.value_or(1.0));
  row.days = range_with_step(row.measured, days);
  row.gpu_hours = times(row.days, kHoursPerDay * static_cast<double>(row.machine.num_gpus));
  if (row.machine.usd_per_gpu_hour) {
    row.usd = times(row.gpu_hours, *row.machine.usd_per_gpu_hour);
  }
  find_misses(answer, row);
}

void rank_rows(Answer& answer) {
  std::ranges::stable_sort(answer.rows, [&](const AnswerRow& a, const AnswerRow& b) {
    if (a.fate != b.fate || !a.best) return a.fate < b.fate;
    const double cost_a = cost_of_row(answer, a);
    const double cost_b = cost_of_row(answer, b);
    return std::tie(cost_a, a.days.centre) < std::tie(cost_b, b.days.centre);
  });
  const AnswerRow& first = answer.rows.front();
  for (AnswerRow& row : answer.rows) {
    if (row.fate != MachineFate::holds) continue;
    row.reason = &row == &first ? (has_all_prices(answer) ? "cheapest" : "fewest GPU hours")
                                : against_first(answer, first, row);
    const std::string risk = risk_of(answer, row);
    if (!risk.empty()) row.reason += "; " + risk;
  }
}

}  // namespace shardsim
