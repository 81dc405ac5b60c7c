#include "sim/command/question_page.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reports/units.hpp"

namespace shardsim {

namespace {

QuestionRow row_of(const AnswerRow& answered) {
  QuestionRow row;
  row.machine =
      fmt::format("{} x {}", format_count(answered.machine.num_gpus), answered.machine.gpu);
  row.holds = answered.fate == MachineFate::holds;
  row.is_open = answered.fate == MachineFate::not_found;
  row.is_tight = answered.best && answered.best->is_tight;
  row.reason = answered.reason;
  row.capacity_bytes = answered.memory_capacity_bytes;
  row.search = search_words(answered);
  if (!answered.best) return row;
  row.layout = words_of(answered.best->candidate);
  row.device_bytes = answered.best->device_bytes;
  row.days = answered.training.days;
  row.gpu_hours = answered.training.gpu_hours;
  row.usd = answered.training.usd;
  return row;
}

std::string title_of(const Answer& answer) {
  std::string title =
      fmt::format("{} on {} tokens", answer.model, format_amount(answer.tokens, Digits::given));
  if (answer.question.deadline_days) {
    title += fmt::format(" in {} days", format_number(*answer.question.deadline_days));
  }
  if (answer.question.budget_usd) {
    title +=
        fmt::format(" for at most ${}", format_amount(*answer.question.budget_usd, Digits::given));
  }
  return title;
}

}  // namespace

QuestionPage question_page(const Answer& answer) {
  QuestionPage page;
  page.title = title_of(answer);
  page.facts = fmt::format("{}, {} tokens per sequence, global batch {}", answer.precision,
                           format_count(answer.seq_len), format_count(answer.global_batch_size));
  page.order = has_all_prices(answer) ? "cheapest first" : "fewest GPU hours first";
  page.deadline_days = answer.question.deadline_days;
  page.budget_usd = answer.question.budget_usd;
  for (const AnswerRow& row : answer.rows) page.rows.push_back(row_of(row));
  page.notes.push_back(downtime_words(answer.least_goodput, answer.most_goodput));
  if (!answer.question.tokens) page.notes.emplace_back("Days and GPU hours are for 1 T tokens.");
  if (std::ranges::any_of(page.rows, &QuestionRow::is_tight)) {
    page.notes.push_back(
        fmt::format("! leaves less than {:.3g} % of the memory, so it may run out.",
                    answer.memory_margin * 100));
  }
  for (const std::string& words : evidence_words(answer)) page.notes.push_back(words);
  if (answer.stop != SearchStop::none) {
    page.notes.emplace_back(
        "The search was stopped: in a row with a gap, the best possible layout is faster by at "
        "most that gap.");
  }
  page.assumptions = answer.assumptions;
  for (const std::string& field : answer.ignored) page.assumptions.push_back("ignored: " + field);
  if (!answer.not_modelled.empty()) {
    page.assumptions.push_back("not modelled: " + answer.not_modelled);
  }
  return page;
}

}  // namespace shardsim
