#include "sim/question/ask.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/console/parallel.hpp"

#include "sim/question/search_turns.hpp"

namespace shardsim {

namespace {

// One request may leave no layout, and others of the question may have some.
constexpr const char* kNoLayout = "E1324";

// A layout that leaves less than the margin ranks behind slower ones that leave more.
bool is_proven(const std::optional<SimulatedPoint>& best, const std::optional<double>& gap) {
  return best && !best->is_tight && gap == 0.0;
}

bool is_decided(const SearchProgress& progress) {
  return progress.fits_none || is_proven(progress.best, progress.gap);
}

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
                 {.body = [this](std::size_t i) { i == 0 ? watch() : search_one(i - 1); },
                  .finished = nullptr,
                  .stop = nullptr});
    return answer(true);
  }

 private:
  // The cores are shared by machines first: two searches on two cores beat one on both.
  [[nodiscard]] int at_a_time() const {
    return std::min(hooks_.jobs, static_cast<int>(machines_.size()));
  }
  [[nodiscard]] int jobs_of_one() const { return std::max(1, hooks_.jobs / at_a_time()); }

  // All first turns together take a quarter of the time.
  [[nodiscard]] SearchTurns::Limits limits() const {
    constexpr double kShareOfFirst = 0.25;
    constexpr double kUsualLimit = 60.0;
    const double limit_s =
        question_.shared.time_limit_s > 0 ? question_.shared.time_limit_s : kUsualLimit;
    SearchTurns::Limits limits;
    limits.at_a_time = at_a_time();
    limits.first_turn_s = limit_s * kShareOfFirst * limits.at_a_time /
                          static_cast<double>(std::max<std::size_t>(machines_.size(), 1));
    limits.turn_s = std::min(limits.turn_s, limits.first_turn_s);
    return limits;
  }

  void search_one(std::size_t i) {
    try {
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
      turns_.note(i, {.progress = {}, .no_layout = error.what()});
    }
  }

  SearchHooks hooks_of(std::size_t i) {
    SearchHooks hooks;
    hooks.jobs = jobs_of_one();
    // Only the search's own thread waits: its helpers then have nothing to do.
    hooks.stop = [this, i, own = std::this_thread::get_id()] {
      const auto asked = [this] { return has_failed_ ? SearchStop::interrupt : hooks_.stop(); };
      if (std::this_thread::get_id() == own) {
        turns_.wait(i, [&asked] { return asked() != SearchStop::none; });
      }
      // A row has one layout: nothing more is wanted of a search that has proven it.
      return is_decided(turns_.state_of(i).progress) ? SearchStop::time_limit : asked();
    };
    hooks.on_progress = [this, i](const SearchProgress& progress) {
      turns_.note(i, {.progress = progress, .no_layout = {}});
    };
    return hooks;
  }

  void watch() {
    bool has_first = false;
    while (!turns_.all_left()) {
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
      const PreparedMachine& machine = machines_[i];
      judge_row(answer,
                compile(row.best ? scenario_of(machine.base, row.best->candidate)
                                 : machine.base.scenario),
                row);
      if (row.training.goodput) {
        answer.least_goodput = std::min(answer.least_goodput.value_or(1.0), *row.training.goodput);
        answer.most_goodput = std::max(answer.most_goodput.value_or(0.0), *row.training.goodput);
      }
      answer.rows.push_back(std::move(row));
    }
    if (is_last) note_stop(answer);
    rank_rows(answer);
    return answer;
  }

  [[nodiscard]] Answer header() const {
    const SearchBase& base = machines_.front().base;
    const Scenario& s = base.scenario;
    Answer answer;
    answer.question = question_;
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
    answer.time_limit_s = question_.shared.time_limit_s;
    for (const PreparedMachine& machine : machines_) {
      for (const std::string& warning : machine.base.warnings) {
        if (std::ranges::find(answer.warnings, warning) == answer.warnings.end()) {
          answer.warnings.push_back(warning);
        }
      }
    }
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
    row.is_complete =
        report.stop == SearchStop::none || report.num_open == 0 || is_proven(row.best, report.gap);
    row.gap = report.gap;
    row.num_candidates = report.num_candidates;
    row.num_simulated = report.num_simulated;
    row.least_that_did_not_fit = report.least_that_did_not_fit;
    row.least_bytes_not_fitting = report.least_bytes_not_fitting;
  }

  static void read_state(const SearchState& state, AnswerRow& row) {
    if (!state.no_layout.empty()) {
      row.fate = MachineFate::no_layout;
      row.reason = state.no_layout;
      return;
    }
    row.best = state.progress.best;
    row.gap = state.progress.gap;
    row.is_complete = is_decided(state.progress);
    row.num_simulated = state.progress.simulated;
  }

  void note_stop(Answer& answer) const {
    for (const AnswerRow& row : answer.rows) {
      if (!row.is_complete && row.fate != MachineFate::no_layout) answer.stop = hooks_.stop();
    }
  }

  const Question& question_;
  const std::vector<PreparedMachine>& machines_;
  const AskHooks& hooks_;
  SearchTurns turns_;
  std::vector<std::optional<SearchOutcome>> outcomes_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace

std::vector<PreparedMachine> prepare_machines(const Question& question) {
  std::vector<PreparedMachine> machines;
  for (const MachineChoice& machine : question.machines) {
    SearchRequest request = request_of(question, machine);
    // A row has one layout, so neither others nor the front are looked for.
    request.top = 1;
    request.front_within = 1.0;
    SearchBase base = prepare_search(request);
    machines.push_back({machine, std::move(request), std::move(base)});
  }
  return machines;
}

Answer ask(const Question& question, const std::vector<PreparedMachine>& machines,
           const AskHooks& hooks) {
  return Asking(question, machines, hooks).run();
}

}  // namespace shardsim
