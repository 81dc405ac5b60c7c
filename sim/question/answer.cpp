#include "sim/question/answer.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/time.hpp"

#include "reports/units.hpp"
#include "sim/run/whole_training.hpp"

namespace shardsim {

namespace {

std::string dollars(double usd) { return "$" + format_amount(usd, Digits::three); }

std::string days_words(const AnswerRow& row) {
  std::string text = format_number(row.training.days.centre) + " days";
  if (row.training.days.low == row.training.days.high) return text;
  return text + fmt::format(" ({} to {})", format_number(row.training.days.low),
                            format_number(row.training.days.high));
}

// "late by 30 days, over the budget by $2 M": what the row misses.
void find_misses(const Answer& answer, AnswerRow& row) {
  std::string text;
  const Question& question = answer.question;
  if (!std::isfinite(row.training.days.centre)) {
    row.lost_to.emplace_back("failures");
    row.fate = MachineFate::misses;
    row.reason = "failures leave no time for progress";
    return;
  }
  if (question.deadline_days && row.training.days.centre > *question.deadline_days) {
    row.lost_to.emplace_back("deadline");
    text = fmt::format("late: {} of {}", days_words(row), format_number(*question.deadline_days));
  }
  if (question.budget_usd && row.training.usd && row.training.usd->centre > *question.budget_usd) {
    row.lost_to.emplace_back("budget");
    text += fmt::format("{}over the budget: {} of {}", text.empty() ? "" : "; ",
                        dollars(row.training.usd->centre), dollars(*question.budget_usd));
  }
  row.fate = row.lost_to.empty() ? MachineFate::holds : MachineFate::misses;
  row.reason = text;
}

double cost_by_the_model(const Answer& answer, const AnswerRow& row) {
  return has_all_prices(answer) && row.training.usd ? row.training.usd->by_the_model
                                                    : row.training.gpu_hours.by_the_model;
}

// The risk of a row that holds: demands that the high end of its range misses.
std::string risk_of(const Answer& answer, const AnswerRow& row) {
  const Question& question = answer.question;
  std::string text;
  if (question.deadline_days && row.training.days.high > *question.deadline_days) {
    text = fmt::format("the high end of the range is late: {} days",
                       format_number(row.training.days.high));
  }
  if (question.budget_usd && row.training.usd && row.training.usd->high > *question.budget_usd) {
    text += fmt::format("{} over the budget: {}",
                        text.empty() ? "the high end of the range is" : " and",
                        dollars(row.training.usd->high));
  }
  return text;
}

void explain_no_layout(const Answer& answer, AnswerRow& row) {
  if (row.fate == MachineFate::no_layout) {
    row.lost_to.emplace_back("layout");
    return;
  }
  if (row.is_complete) {
    row.fate = MachineFate::does_not_fit;
    row.lost_to.emplace_back("memory");
    row.reason = "does not fit";
    if (!row.least_that_did_not_fit.empty()) {
      row.reason += fmt::format(": {} needs {}{} of {}", row.least_that_did_not_fit,
                                row.least_is_simulated ? "" : "at least ",
                                format_memory(row.least_bytes_not_fitting),
                                format_memory(row.memory_capacity_bytes));
    }
    return;
  }
  row.fate = MachineFate::not_found;
  row.lost_to.emplace_back("time limit");
  row.reason = fmt::format("no layout that fits was found in {:.3g} s", answer.spent_s);
  if (answer.stop == SearchStop::time_limit) row.reason += "; give --time-limit more";
}

// Why the first is the first. The model's own figures are no best estimate: the sentence says so,
// and whether another would be first if all rows had such figures.
std::string first_words(const Answer& answer, const AnswerRow& first) {
  std::string text = has_all_prices(answer) ? "cheapest" : "fewest GPU hours";
  if (first.has_range()) return text;
  text += ", but by the model alone: no measured run is like its layout";
  const AnswerRow* other = &first;
  for (const AnswerRow& row : answer.rows) {
    if (row.fate != MachineFate::holds) continue;
    if (cost_by_the_model(answer, row) < cost_by_the_model(answer, *other)) other = &row;
  }
  if (other == &first) return text;
  return text + fmt::format(". By the model alone {} {} would be the first",
                            other->machine.num_gpus, other->machine.gpu);
}

// "$310 k (8.1 %) more than the first, 40 days sooner".
std::string against_first(const Answer& answer, const AnswerRow& first, const AnswerRow& row) {
  const double more = cost_of_row(answer, row) - cost_of_row(answer, first);
  const double sooner = first.training.days.centre - row.training.days.centre;
  std::string text =
      has_all_prices(answer) ? dollars(more) : format_amount(more, Digits::three) + " GPU hours";
  text += fmt::format(" ({} %) more than the first, ",
                      format_number(more / cost_of_row(answer, first) * kPercent));
  if (sooner == 0) return text + "in the same time";
  return text + fmt::format("{} days {}", format_number(sooner < 0 ? -sooner : sooner),
                            sooner < 0 ? "later" : "sooner");
}

}  // namespace

bool has_all_prices(const Answer& answer) {
  return std::ranges::all_of(answer.question.machines, [](const MachineChoice& machine) {
    return machine.usd_per_gpu_hour.has_value();
  });
}

double cost_of_row(const Answer& answer, const AnswerRow& row) {
  return has_all_prices(answer) && row.training.usd ? row.training.usd->centre
                                                    : row.training.gpu_hours.centre;
}

void judge_row(const Answer& answer, const Experiment* experiment, AnswerRow& row) {
  row.lost_to.clear();
  if (!row.best) {
    explain_no_layout(answer, row);
    return;
  }
  row.measured = measured_like(*experiment, *row.best);
  row.training =
      training_figures(row.measured, answer.tokens, row.machine.usd_per_gpu_hour.value_or(0.0));
  find_misses(answer, row);
}

void rank_rows(Answer& answer) {
  std::ranges::stable_sort(answer.rows, [&](const AnswerRow& a, const AnswerRow& b) {
    if (a.fate != b.fate || !a.best) return a.fate < b.fate;
    const double cost_a = cost_of_row(answer, a);
    const double cost_b = cost_of_row(answer, b);
    return std::tie(cost_a, a.training.days.centre) < std::tie(cost_b, b.training.days.centre);
  });
  const AnswerRow& first = answer.rows.front();
  for (AnswerRow& row : answer.rows) {
    if (row.fate != MachineFate::holds) continue;
    row.reason = &row == &first ? first_words(answer, first) : against_first(answer, first, row);
    if (&row != &first && !row.has_range()) row.reason += "; by the model alone";
    const std::string risk = risk_of(answer, row);
    if (!risk.empty()) row.reason += "; " + risk;
  }
}

}  // namespace shardsim
