#include <ostream>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "sim/collective/collective_run.hpp"
#include "sim/real/run_ranks.hpp"

// The results of ranks travel over the rendezvous as lines of numbers: "-" for no number.
#include "backends/rendezvous/monotonic_clock.hpp"

namespace shardsim {

namespace {

std::string result_key(int rank, std::size_t size) {
  return fmt::format("row {} of {}", size, rank);
}
std::string totals_key(int rank) { return fmt::format("totals of {}", rank); }

template <class Number>
std::string word_of(const std::optional<Number>& number) {
  return number ? fmt::format("{}", *number) : "-";
}

template <class Number>
std::optional<Number> number_of(std::istream& words) {
  std::string word;
  words >> word;
  if (word == "-") return std::nullopt;
  Number number{};
  std::istringstream digits(word);
  if (!(digits >> number) || !digits.eof()) {
    throw Error(ExitCode::backend_failed, "E1090",
                "a rank has reported \"" + word + "\", no number",
                "run all ranks with the same build of shardsim");
  }
  return number;
}

std::string to_text(const TrialResult& result) {
  std::string text = fmt::format("{}", result.sent_bytes);
  for (const TrialResult::Place& place : result.places) {
    text += " " + word_of(place.seconds) + " " + word_of(place.wrong);
  }
  return text;
}

TrialResult trial_result_of(const std::string& text) {
  std::istringstream words(text);
  TrialResult result;
  result.sent_bytes = number_of<std::int64_t>(words).value_or(0);
  for (TrialResult::Place& place : result.places) {
    place.seconds = number_of<double>(words);
    place.wrong = number_of<std::int64_t>(words);
  }
  return result;
}

std::int64_t trial_of_rank(const CollectiveSetting& setting, const RunHooks& hooks,
                           RankSeat& seat) {
  const TestValues values(setting.dtype, setting.reduction, reduces(setting.operation),
                          setting.ranks());
  const std::unique_ptr<Communicator> world = seat.open().backend().world();
  std::unique_ptr<Communicator> wrapped;
  if (hooks.wrap_world) wrapped = hooks.wrap_world(*world);
  CollectiveTrial trial(setting, wrapped ? *wrapped : *world, &values, monotonic_seconds);
  trial.warm_up();
  for (std::size_t i = 0; i < setting.sizes.size(); ++i) {
    const TrialResult result = trial.run(setting.sizes[i], setting.iterations, setting.checks);
    seat.set(result_key(seat.rank(), i), to_text(result));
  }
  return trial.sent_in_all();
}

void work_of_rank(const CollectiveSetting& setting, const RunHooks& hooks, RankSeat& seat) {
  const std::int64_t sent = trial_of_rank(setting, hooks, seat);
  seat.open().backend().finish();
  if (seat.rank() == 0) seat.set("shares devices", seat.open().shares_devices() ? "yes" : "no");
  const std::optional<SentTotals> wire = seat.open().close();
  const std::string counted = wire ? fmt::format("{} {}", wire->bytes, wire->messages) : "- -";
  seat.set(totals_key(seat.rank()), fmt::format("{} {}", sent, counted));
}

void add_totals(CollectiveRun& run, const std::string& text) {
  std::istringstream words(text);
  run.sent_bytes += number_of<std::int64_t>(words).value_or(0);
  const auto bytes = number_of<std::int64_t>(words);
  const auto messages = number_of<std::int64_t>(words);
  if (!bytes || !messages) return;
  if (!run.wire) run.wire.emplace();
  run.wire->bytes += *bytes;
  run.wire->messages += *messages;
}

CollectiveRun run_of(const CollectiveSetting& setting, const ProcessOptions& options,
                     const RendezvousServer& server) {
  const auto value = [&server](const std::string& key) { return server.value(key).value_or(""); };
  CollectiveRun run;
  for (std::size_t i = 0; i < setting.sizes.size(); ++i) {
    std::vector<TrialResult> by_rank;
    for (int rank = 0; rank < setting.ranks(); ++rank) {
      by_rank.push_back(trial_result_of(value(result_key(rank, i))));
    }
    run.rows.push_back(row_of(setting, setting.sizes[i], by_rank));
  }
  for (int rank = 0; rank < setting.ranks(); ++rank) add_totals(run, value(totals_key(rank)));
  run.wire_is_exact = same_order(options);
  run.library = value("library");
  run.notes = notes_of(server);
  const std::optional<LaunchedRank> launched = find_launched_rank();
  const int here = launched ? launched->local_size.value_or(setting.ranks()) : setting.ranks();
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (here > cores) {
    run.notes.push_back(fmt::format("{} ranks share {} cores of this machine", here, cores));
  }
  run.times_mean_nothing = here > cores || value("shares devices") == "yes";
  return run;
}

}  // namespace

std::optional<CollectiveRun> measure_collectives(const CollectiveSetting& setting,
                                                 const ProcessOptions& options,
                                                 const RunHooks& hooks, int& exit_code,
                                                 std::ostream& err) {
  RanksJob job;
  job.setting.cluster = setting.cluster;
  job.work = [&](RankSeat& seat) { work_of_rank(setting, hooks, seat); };
  job.on_progress = hooks.on_progress;
  const RanksOutcome ranks = run_ranks(job, options, err);
  exit_code = ranks.server ? static_cast<int>(ranks.verdict.exit_code()) : ranks.exit_code;
  if (!ranks.server) return std::nullopt;
  if (!ranks.verdict.failure) return run_of(setting, options, *ranks.server);
  write_flight_records(ranks.verdict, ".", err);
  err << ranks.verdict.failure->to_text();
  return std::nullopt;
}

}  // namespace shardsim
