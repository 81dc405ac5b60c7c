#include "sim/question/ask.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/question/search_turns.hpp"

namespace shardsim {

namespace {

// What the search of one machine knows so far. `mutex` guards all but the outcome.
struct Searched {
  std::mutex mutex;
  SearchProgress progress;
  std::atomic<bool> is_proven = false;
  std::optional<SearchOutcome> outcome;  // Read when its thread has ended.
  std::string no_layout;
  std::exception_ptr error;
};

// One request may leave no layout, and others of the question may have some.
constexpr const char* kNoLayout = "E1324";

// A layout that leaves less than the margin ranks behind slower ones that leave more.
bool is_proven(const std::optional<SimulatedPoint>& best, const std::optional<double>& gap) {
  return best && !best->is_tight && gap == 0.0;
}

class Asking {
 public:
  Asking(const Question& question, const std::vector<PreparedMachine>& machines,
         const AskHooks& hooks)
      : question_(question),
        machines_(machines),
        hooks_(hooks),
        turns_(machines.size(), limits(), hooks.seconds),
        searched_(machines.size()) {}

  Answer run() {
    std::vector<std::thread> threads;
    num_left_ = machines_.size();
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      threads.emplace_back([this, i] { search_one(i); });
    }
    watch();
    for (std::thread& thread : threads) thread.join();
    for (const Searched& searched : searched_) {
      if (searched.error) std::rethrow_exception(searched.error);
    }
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
    Searched& searched = searched_[i];
    const auto is_over = [this] { return is_failed_ || hooks_.stop() != SearchStop::none; };
    SearchHooks hooks;
    hooks.jobs = jobs_of_one();
    const std::thread::id own = std::this_thread::get_id();
    hooks.stop = [this, i, is_over, own, &searched] {
      // Only this thread waits: its helpers then have nothing to do.
      if (std::this_thread::get_id() == own) turns_.wait(i, is_over);
      if (is_failed_) return SearchStop::interrupt;
      // A row has one layout: nothing more is wanted of a search that has proven it.
      return searched.is_proven ? SearchStop::time_limit : hooks_.stop();
    };
    hooks.on_progress = [this, i, &searched](const SearchProgress& progress) {
      if (progress.best) turns_.note_find(i);
      searched.is_proven = is_proven(progress.best, progress.gap) || progress.fits_none;
      const std::lock_guard lock(searched.mutex);
      searched.progress = progress;
    };
    try {
      turns_.wait(i, is_over);
      searched.outcome = search(machines_[i].base, machines_[i].request, hooks);
    } catch (const UsageError& error) {
      if (error.code() == kNoLayout) {
        const std::lock_guard lock(searched.mutex);
        searched.no_layout = error.what();
      } else {
        fail(searched);
      }
    } catch (...) {
      fail(searched);
    }
    turns_.leave(i);
    --num_left_;
  }

  void fail(Searched& searched) {
    searched.error = std::current_exception();
    is_failed_ = true;
  }

  // The caller's thread, while the others search.
  void watch() {
    bool is_first = true;
    constexpr std::chrono::milliseconds kPoll(50);
    while (num_left_ > 0) {
      std::this_thread::sleep_for(kPoll);
      if (hooks_.on_progress) hooks_.on_progress(progress_words());
      if (!is_first || num_left_ == 0 || is_failed_ || !turns_.all_had_a_turn()) continue;
      is_first = false;
      if (hooks_.on_first) hooks_.on_first(answer(false));
    }
  }

  [[nodiscard]] std::string progress_words() {
    std::size_t num_simulated = 0;
    std::size_t num_found = 0;
    std::size_t num_proven = 0;
    for (Searched& searched : searched_) {
      const std::lock_guard lock(searched.mutex);
      num_simulated += searched.progress.simulated;
      num_found += searched.progress.best ? 1 : 0;
      num_proven += searched.progress.gap == 0.0 ? 1 : 0;
    }
    return fmt::format("{} simulated, {} of {} machines have a layout, {} proven to be the best",
                       num_simulated, num_found, machines_.size(), num_proven);
  }

  Answer answer(bool is_last) {
    Answer answer = header();
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      AnswerRow row = begin_row(i);
      bool has_outcome = false;
      if (is_last && searched_[i].outcome) {
        has_outcome = true;
        read_outcome(i, *searched_[i].outcome, row);
      }
      if (!has_outcome) read_progress(i, row);
      const PreparedMachine& machine = machines_[i];
      judge_row(answer,
                compile(row.best ? scenario_of(machine.base, row.best->candidate)
                                 : machine.base.scenario),
                row);
      if (row.measured.number(metric::kGoodputFraction)) answer.includes_downtime = true;
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

  void read_progress(std::size_t i, AnswerRow& row) {
    Searched& searched = searched_[i];
    const std::lock_guard lock(searched.mutex);
    if (!searched.no_layout.empty()) {
      row.fate = MachineFate::no_layout;
      row.reason = searched.no_layout;
      return;
    }
    row.best = searched.progress.best;
    row.gap = searched.progress.gap;
    row.is_complete = is_proven(row.best, row.gap) || searched.progress.fits_none;
    row.num_simulated = searched.progress.simulated;
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
  std::vector<Searched> searched_;
  std::atomic<std::size_t> num_left_ = 0;
  std::atomic<bool> is_failed_ = false;
};

}  // namespace

std::vector<PreparedMachine> prepare_machines(const Question& question) {
  std::vector<PreparedMachine> machines;
  for (const MachineChoice& machine : question.machines) {
    SearchRequest request = request_of(question, machine);
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
