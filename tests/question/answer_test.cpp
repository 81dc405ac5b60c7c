#include "sim/question/answer.hpp"

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/whole_training.hpp"

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {

namespace {

// A row that trains, as far as ranking looks at it.
AnswerRow trained_row(const char* gpu, double days, double usd,
                      MachineFate fate = MachineFate::holds) {
  AnswerRow row;
  row.machine = {.gpu = gpu, .num_gpus = 8, .usd_per_gpu_hour = 1.0};
  row.best = SimulatedPoint();
  row.fate = fate;
  row.training.days = {days, days, days, days};
  row.training.gpu_hours = {usd, usd, usd, usd};
  row.training.usd = row.training.gpu_hours;
  row.measured.metrics.push_back({metric::kStepTimeS.name, 1.0});
  row.measured.error_bands.push_back({.metric = metric::kStepTimeS.name,
                                      .low = 0.9,
                                      .centre = 1.1,
                                      .high = 1.3,
                                      .runs = 5,
                                      .group = "dense models"});
  return row;
}

// Its figures are the model's: no measured run is like it.
AnswerRow unlike_row(const char* gpu, double days, double usd) {
  AnswerRow row = trained_row(gpu, days, usd);
  row.measured.error_bands.clear();
  row.measured.no_error_band = "no measured run has 8 GPUs";
  return row;
}

// A row whose best estimate is `factor` times the model's figures.
AnswerRow ranged_row(const char* gpu, double days, double usd, double factor) {
  AnswerRow row = trained_row(gpu, days, usd);
  const auto of = [factor](double centre) {
    return BandRange{0.9 * centre, centre, 1.2 * centre, centre / factor};
  };
  row.training.days = of(days);
  row.training.gpu_hours = of(usd);
  row.training.usd = of(usd);
  return row;
}

AnswerRow lost_row(const char* gpu, MachineFate fate) {
  AnswerRow row;
  row.machine = {.gpu = gpu, .num_gpus = 8, .usd_per_gpu_hour = 1.0};
  row.fate = fate;
  return row;
}

// A row whose layout is simulated, and not judged yet.
AnswerRow simulated_row() {
  AnswerRow row;
  row.machine = {.gpu = "h100", .num_gpus = 64, .usd_per_gpu_hour = 2.0};
  row.best = SimulatedPoint();
  row.best->step_time_s = 1.0;
  row.best->tokens_per_s = 1e6;
  return row;
}

Answer answer_with(const std::vector<AnswerRow>& rows) {
  Answer answer;
  answer.rows = rows;
  for (const AnswerRow& row : rows) answer.question.machines.push_back(row.machine);
  rank_rows(answer);
  return answer;
}

std::vector<std::string> gpus_of(const Answer& answer) {
  std::vector<std::string> names;
  for (const AnswerRow& row : answer.rows) names.push_back(row.machine.gpu);
  return names;
}

}  // namespace

TEST_CASE("machines that hold come first, the cheapest before the others") {
  const Answer answer =
      answer_with({lost_row("too small", MachineFate::does_not_fit),
                   trained_row("late", 9, 1, MachineFate::misses), trained_row("dear", 1, 300),
                   trained_row("cheap", 3, 200), lost_row("unknown", MachineFate::not_found),
                   trained_row("cheap and slow", 4, 200)});
  CHECK(gpus_of(answer) == std::vector<std::string>{"cheap", "cheap and slow", "dear", "late",
                                                    "unknown", "too small"});
  CHECK(answer.rows[0].reason == "cheapest");
  CHECK(answer.rows[1].reason == "$0 (0 %) more than the first, 1.00 days later");
  CHECK(answer.rows[2].reason == "$100 (50.0 %) more than the first, 2.00 days sooner");
}

TEST_CASE("a cheapest row without a range says so, and what would be first like for like") {
  const Answer answer =
      answer_with({ranged_row("dear", 5, 300, 1.25), unlike_row("unlike", 4, 200),
                   ranged_row("ranged", 5, 220, 1.25), unlike_row("unlike and dear", 4, 400)});
  CHECK(gpus_of(answer) == std::vector<std::string>{"unlike", "ranged", "dear", "unlike and dear"});
  CHECK(answer.rows[0].reason ==
        "cheapest, but by the model alone: no measured run is like its layout. By the model alone "
        "8 ranged would be the first");
  CHECK(answer.rows[1].reason == "$20.0 (10.0 %) more than the first, 1.00 days later");
  CHECK(answer.rows[3].reason ==
        "$200 (100 %) more than the first, in the same time; by the model alone");
}

TEST_CASE("a cheapest row without a range that is first like for like only says that it has none") {
  const Answer answer =
      answer_with({unlike_row("unlike", 4, 200), ranged_row("ranged", 5, 300, 1.25)});
  CHECK(answer.rows[0].reason ==
        "cheapest, but by the model alone: no measured run is like its layout");
}

TEST_CASE("the notes name rows without a range, why, and how far the model is from measured runs") {
  const Answer mixed = answer_with({unlike_row("unlike", 4, 200), ranged_row("ranged", 5, 220, 1.1),
                                    ranged_row("other", 5, 230, 1.25)});
  const std::vector<std::string> notes = evidence_words(mixed);
  REQUIRE(notes.size() == 4);
  CHECK(notes[0].starts_with("ranged: the range holds "));
  CHECK(notes[2] == "8 unlike: by the model alone, as no measured run has 8 GPUs");
  CHECK(
      notes[3] ==
      "rows by the model alone rank beside best estimates: in rows with a range the best estimate "
      "is 1.10 to 1.25 times the model's days");
  // Alone they are compared like for like.
  CHECK(evidence_words(answer_with({unlike_row("unlike", 4, 200)})).size() == 1);
  // The kind's other rows have a range.
  const Answer one_kind =
      answer_with({unlike_row("h100", 4, 200), ranged_row("h100", 5, 220, 1.1)});
  CHECK(evidence_words(one_kind).size() == 3);
  CHECK(to_table(one_kind).find("by the model     ") != std::string::npos);
}

TEST_CASE("without the price of each machine GPU hours rank") {
  AnswerRow unpriced = trained_row("unpriced", 1, 100);
  unpriced.machine.usd_per_gpu_hour.reset();
  unpriced.training.usd.reset();
  AnswerRow priced = trained_row("priced", 1, 120);
  priced.training.usd = BandRange{1, 1, 1, 1};
  const Answer answer = answer_with({priced, unpriced});
  CHECK(gpus_of(answer) == std::vector<std::string>{"unpriced", "priced"});
  CHECK(answer.rows[0].reason == "fewest GPU hours");
  CHECK(answer.rows[1].reason == "20.0 GPU hours (20.0 %) more than the first, in the same time");
}

TEST_CASE("a row that holds says what the high end of its range would miss") {
  AnswerRow row = trained_row("risky", 80, 5e6);
  row.training.days.high = 99;
  row.training.usd->high = 7e6;
  Answer answer;
  answer.question.machines = {row.machine};
  answer.question.deadline_days = 90;
  answer.question.budget_usd = 6e6;
  answer.rows = {row};
  rank_rows(answer);
  CHECK(answer.rows[0].reason ==
        "cheapest; the high end of the range is late: 99.0 days and over the budget: $7.00 M");
  row.training.days.high = 89;
  answer.rows = {row};
  rank_rows(answer);
  CHECK(answer.rows[0].reason == "cheapest; the high end of the range is over the budget: $7.00 M");
}

TEST_CASE("the fate of a row without a layout depends on what its search has decided") {
  const Experiment experiment = compile(load_scenario(kPlan));
  const Answer answer;
  AnswerRow row;
  judge_row(answer, &experiment, row);
  CHECK(row.fate == MachineFate::not_found);
  CHECK(row.lost_to == std::vector<std::string>{"time limit"});
  row.is_complete = true;
  row.least_that_did_not_fit = "tp8";
  row.least_bytes_not_fitting = std::int64_t{96} << 30U;
  row.least_is_simulated = true;
  row.memory_capacity_bytes = std::int64_t{80} << 30U;
  judge_row(answer, &experiment, row);
  CHECK(row.fate == MachineFate::does_not_fit);
  CHECK(row.lost_to == std::vector<std::string>{"memory"});
  CHECK(row.reason == "does not fit: tp8 needs 96.0 GiB of 80.0 GiB");
}

TEST_CASE("a row that makes no progress misses, and has no number that is none") {
  const Experiment experiment =
      compile(load_scenario(kPlan, {"faults.gpu_mtbf_hours=0.001", "faults.restart_s=600",
                                    "faults.checkpoint_write_s=30"}));
  AnswerRow row = simulated_row();
  Answer answer;
  answer.tokens = 1e12;
  judge_row(answer, &experiment, row);
  CHECK(row.fate == MachineFate::misses);
  CHECK(row.lost_to == std::vector<std::string>{"failures"});
}

// The deadline and the budget are exactly met, and then missed by the least that a double can.
TEST_CASE("a row misses a deadline or a budget only beyond it") {
  const Experiment experiment = compile(load_scenario(kPlan));
  AnswerRow row = simulated_row();
  Answer answer;
  answer.tokens = 1e12;
  judge_row(answer, &experiment, row);
  REQUIRE(row.fate == MachineFate::holds);
  CHECK(row.training.days.by_the_model == training_days(1e12, 1e6));
  answer.question.deadline_days = row.training.days.centre;
  answer.question.budget_usd = row.training.usd->centre;
  judge_row(answer, &experiment, row);
  CHECK(row.fate == MachineFate::holds);
  answer.question.deadline_days = std::nextafter(row.training.days.centre, 0.0);
  judge_row(answer, &experiment, row);
  CHECK(row.fate == MachineFate::misses);
  CHECK(row.lost_to == std::vector<std::string>{"deadline"});
  answer.question.budget_usd = std::nextafter(row.training.usd->centre, 0.0);
  judge_row(answer, &experiment, row);
  CHECK(row.lost_to == std::vector<std::string>{"deadline", "budget"});
}

}  // namespace shardsim::test
