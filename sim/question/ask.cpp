#include "sim/question/ask.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "reports/terminal_text.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/console/parallel.hpp"

#include "sim/question/search_turns.hpp"

namespace shardsim {

namespace {

// One request may leave no layout, and others of the question may have some.
constexpr const char* kNoLayout = "E1324";

class Asking {
 public:
  Asking(const Question& question, const std::vector<PreparedMachine>& machines,
         const AskHooks& hooks)
      : question_(question),
        machines_(machines),
        hooks_(hooks),
        turns_(machines.size(), limits(), hooks.seconds),
        outcomes_(machines.size()) {}

  // One more thread watches. If a search throws, all end, and that is thrown on.
  Answer run() {
    const std::size_t count = machines_.size() + 1;
    run_parallel(count, static_cast<int>(count),
                 {.body = [this](std::size_t i) { i == 0 ? watch_or_fail() : search_one(i - 1); },
                  .finished = nullptr,
                  .stop = nullptr});
    return answer(true);
  }

 private:
  // All first turns together take a quarter of the time.
  [[nodiscard]] SearchTurns::Limits limits() const {
    constexpr double kShareOfFirst = 0.25;
    constexpr double kUsualLimit = 60.0;
    const double limit_s =
        question_.shared.time_limit_s > 0 ? question_.shared.time_limit_s : kUsualLimit;
    SearchTurns::Limits limits;
    limits.jobs = hooks_.jobs;
    const auto num_machines = static_cast<double>(std::max<std::size_t>(machines_.size(), 1));
    limits.first_turn_s = limit_s * kShareOfFirst * std::min(hooks_.jobs / num_machines, 1.0);
    limits.turn_s = std::min(limits.turn_s, limits.first_turn_s);
    return limits;
  }

  void search_one(std::size_t i) {
    try {
      if (!machines_[i].no_layout.empty()) {
        turns_.note(i, {.progress = {}, .no_layout = machines_[i].no_layout});
        return turns_.leave(i);
      }
      turns_.wait(i, [this] { return has_failed_ || hooks_.stop() != SearchStop::none; });
      search_or_say_why(i);
    } catch (...) {
      has_failed_ = true;
      turns_.leave(i);
      throw;
    }
    turns_.leave(i);
  }

  void search_or_say_why(std::size_t i) {
    try {
      outcomes_[i] = search(machines_[i].base, machines_[i].request, hooks_of(i));
    } catch (const UsageError& error) {
      if (error.code() != kNoLayout) throw;
      turns_.note(i, {.progress = {}, .no_layout = error.what() + ("; " + error.fix())});
    }
  }

  SearchHooks hooks_of(std::size_t i) {
    SearchHooks hooks;
    // The cores are shared by machines first: two searches on two cores beat one on both.
    hooks.jobs = hooks_.jobs;
    hooks.jobs_now = [this, i] { return turns_.jobs_of(i); };
    // Only the search's own thread waits. A search with helpers has no other to wait for.
    hooks.stop = [this, i, own = std::this_thread::get_id()] {
      const auto asked = [this] { return has_failed_ ? SearchStop::interrupt : hooks_.stop(); };
      if (std::this_thread::get_id() == own) {
        turns_.wait(i, [&asked] { return asked() != SearchStop::none; });
      }
      // A row has one layout: nothing more is wanted of a search that has proven it.
      return turns_.has_decided(i) ? SearchStop::time_limit : asked();
    };
    hooks.on_progress = [this, i](const SearchProgress& progress) {
      turns_.note(i, {.progress = progress, .no_layout = {}});
    };
    return hooks;
  }

  void watch_or_fail() {
    try {
      watch();
    } catch (...) {
      has_failed_ = true;
      throw;
    }
  }

  void watch() {
    bool has_first = false;
    while (!has_failed_ && !turns_.all_left()) {
      if (hooks_.on_progress) hooks_.on_progress(progress_words());
      if (has_first || has_failed_ || !turns_.all_had_a_turn()) continue;
      has_first = true;
      if (hooks_.on_first) hooks_.on_first(answer(false));
    }
  }

  [[nodiscard]] std::string progress_words() const {
    std::size_t num_simulated = 0;
    std::size_t num_found = 0;
    std::size_t num_proven = 0;
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      const SearchProgress progress = turns_.state_of(i).progress;
      num_simulated += progress.simulated;
      num_found += progress.best ? 1 : 0;
      num_proven += is_decided(progress) ? 1 : 0;
    }
    return fmt::format("{} simulated, {} of {} machines have a layout, {} are decided",
                       num_simulated, num_found, machines_.size(), num_proven);
  }

  Answer answer(bool is_last) {
    Answer answer = header();
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      AnswerRow row = begin_row(i);
      if (is_last && outcomes_[i]) {
        read_outcome(i, *outcomes_[i], row);
      } else {
        read_state(turns_.state_of(i), row);
      }
      if (row.best) {
        const Experiment experiment = compile(scenario_of(machines_[i].base, row.best->candidate));
        judge_row(answer, &experiment, row);
      } else {
        judge_row(answer, nullptr, row);
      }
      if (row.training.goodput) {
        answer.least_goodput = std::min(answer.least_goodput.value_or(1.0), *row.training.goodput);
        answer.most_goodput = std::max(answer.most_goodput.value_or(0.0), *row.training.goodput);
      }
      answer.rows.push_back(std::move(row));
    }
    answer.stop = is_last ? stop_of(answer) : SearchStop::none;
    rank_rows(answer);
    return answer;
  }

  [[nodiscard]] Answer header() const {
    const SearchBase& base = shared_base(machines_);
    const Scenario& s = base.scenario;
    Answer answer;
    answer.question = question_;
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      answer.question.machines[i] = machines_[i].machine;
    }
    if (s.training.tokens_total > 0) answer.question.tokens = s.training.tokens_total;
    answer.model = s.model.preset.empty() ? question_.shared.model : s.model.preset;
    answer.seq_len = s.model.seq_len;
    answer.global_batch_size = s.training.global_batch_size;
    answer.precision = to_string(s.training.precision);
    answer.memory_margin = s.execution.memory_margin;
    constexpr double kTrillion = 1e12;
    answer.tokens = s.training.tokens_total > 0 ? s.training.tokens_total : kTrillion;
    answer.not_modelled = s.model.not_modelled;
    answer.assumptions = base.assumptions;
    answer.ignored = base.ignored;
    answer.spent_s = hooks_.seconds();
    answer.stop = hooks_.stop();
    answer.warnings = warnings_of(machines_);
    return answer;
  }

  [[nodiscard]] AnswerRow begin_row(std::size_t i) const {
    const Scenario& s = machines_[i].base.scenario;
    AnswerRow row;
    row.machine = machines_[i].machine;
    row.system = s.system.name;
    row.memory_capacity_bytes = s.system.device.memory_bytes;
    return row;
  }

  void read_outcome(std::size_t i, const SearchOutcome& outcome, AnswerRow& row) const {
    const SearchReport report = report_of(machines_[i].base, machines_[i].request, outcome);
    if (!report.ranked.empty()) row.best = report.ranked.front();
    row.is_complete = report.stop == SearchStop::none || report.num_open == 0 ||
                      (row.best && is_proven(*row.best, report.gap));
    row.gap = report.gap;
    row.num_candidates = report.num_candidates;
    row.num_simulated = report.num_simulated;
    row.least_that_did_not_fit = report.least_that_did_not_fit;
    row.least_bytes_not_fitting = report.least_bytes_not_fitting;
    row.least_is_simulated = report.least_is_simulated;
    // Nothing was too large: the reader refused all, or their runs failed.
    if (row.best || !row.is_complete || !report.least_that_did_not_fit.empty()) return;
    row.fate = MachineFate::no_layout;
    row.reason = report.first_failure.empty() ? "all layouts were refused" : report.first_failure;
  }

  static void read_state(const SearchState& state, AnswerRow& row) {
    if (!state.no_layout.empty()) {
      row.fate = MachineFate::no_layout;
      row.reason = state.no_layout;
      row.is_complete = true;
      return;
    }
    row.best = state.progress.best;
    row.gap = state.progress.gap;
    row.is_complete = is_decided(state.progress);
    row.num_simulated = state.progress.simulated;
  }

  // A search that is decided did not need the rest of the time.
  [[nodiscard]] SearchStop stop_of(const Answer& answer) const {
    const bool is_complete = std::ranges::all_of(answer.rows, &AnswerRow::is_complete);
    return is_complete ? SearchStop::none : hooks_.stop();
  }

  const Question& question_;
  const std::vector<PreparedMachine>& machines_;
  const AskHooks& hooks_;
  SearchTurns turns_;
  std::vector<std::optional<SearchOutcome>> outcomes_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace

namespace {

PreparedMachine prepare(const Question& question, const MachineChoice& machine) {
  PreparedMachine prepared;
  prepared.machine = machine;
  prepared.request = request_of(question, machine);
  // A row has one layout, so neither others nor the front are looked for.
  prepared.request.top = 1;
  prepared.request.front_within = 1.0;
  prepared.base = prepare_search(prepared.request);
  const double price = prepared.base.scenario.cost.usd_per_gpu_hour;
  if (!prepared.machine.usd_per_gpu_hour && price > 0) prepared.machine.usd_per_gpu_hour = price;
  return prepared;
}

void require_answerable(const Question& question, const std::vector<PreparedMachine>& machines) {
  for (const PreparedMachine& machine : machines) {
    if (!machine.no_layout.empty()) continue;
    const bool has_tokens = machine.base.scenario.training.tokens_total > 0;
    if (!has_tokens && (question.deadline_days || question.budget_usd)) {
      throw UsageError("E1338",
                       fmt::format("{} needs the tokens to train on",
                                   question.deadline_days ? "--deadline" : "--budget"),
                       "add their number, such as --tokens 10T");
    }
    if (!question.budget_usd || machine.machine.usd_per_gpu_hour) continue;
    throw UsageError(
        "E1338", fmt::format("--budget needs a price of {}", escape_untrusted(machine.machine.gpu)),
        fmt::format("add --usd-per-gpu-hour {}=2.5: no price has a default",
                    escape_untrusted(machine.machine.gpu)));
  }
}

void require_different(const std::vector<PreparedMachine>& machines) {
  for (const PreparedMachine& a : machines) {
    for (const PreparedMachine& b : machines) {
      if (&a == &b || a.machine.num_gpus != b.machine.num_gpus || !a.no_layout.empty()) continue;
      if (!b.no_layout.empty() || a.base.scenario.system.name != b.base.scenario.system.name) {
        continue;
      }
      throw UsageError(
          "E1336", fmt::format("--gpu {},{} names one machine twice", a.machine.gpu, b.machine.gpu),
          "name each once: --gpu h100,b200");
    }
  }
}

}  // namespace

std::vector<PreparedMachine> prepare_machines(const Question& question) {
  std::vector<PreparedMachine> machines;
  std::exception_ptr first_error;
  bool has_one = false;
  for (const MachineChoice& machine : question.machines) {
    try {
      machines.push_back(prepare(question, machine));
      has_one = true;
    } catch (const ScenarioError& error) {
      // Machines differ in the system alone: if one is refused, that is no reason to ask nothing of
      // the others.
      const Problem& problem = error.problems().front();
      if (!first_error) first_error = std::current_exception();
      PreparedMachine none;
      none.machine = machine;
      none.no_layout = problem.message + "; " + problem.help;
      machines.push_back(std::move(none));
    }
  }
  if (!has_one) std::rethrow_exception(first_error);
  require_different(machines);
  require_answerable(question, machines);
  return machines;
}

const SearchBase& shared_base(const std::vector<PreparedMachine>& machines) {
  return std::ranges::find_if(
             machines, [](const PreparedMachine& machine) { return machine.no_layout.empty(); })
      ->base;
}

std::vector<std::string> warnings_of(const std::vector<PreparedMachine>& machines) {
  std::vector<std::string> warnings;
  for (const PreparedMachine& machine : machines) {
    for (const std::string& warning : machine.base.warnings) {
      if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
    }
  }
  return warnings;
}

Answer ask(const Question& question, const std::vector<PreparedMachine>& machines,
           const AskHooks& hooks) {
  return Asking(question, machines, hooks).run();
}

}  // namespace shardsim
