#include "sim/harness/process_checks.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include "backends/rendezvous/monotonic_clock.hpp"

#include "sim/harness/program_run.hpp"

namespace shardsim {

namespace {

// So long a rank waits before it says so.
constexpr double kSecondsBeforeTelling = 0.02;
// Rank 0 looks more and more seldom, and believes in rest after the longest time between looks.
constexpr double kFirstLookSeconds = 0.002;
constexpr double kLastLookSeconds = 0.1;
// Looks of one wait that find nothing before a process lets others have the processor for longer.
constexpr int kSpins = 2000;
constexpr int kPauseMilliseconds = 1;
// Others may compute for so many times as long as a call may wait: as SupervisionTimes::stall.
constexpr double kPatience = 10.0;

Tensor bytes_tensor(std::int64_t count) {
  return Tensor::allocate(nullptr, MemoryCategory::comm, {count}, DType::int8, /*meta=*/false);
}

// Nobody destroys it: MPI may have ended by then.
template <class Object>
std::vector<Object>& kept_for_good() {
  static auto* const kept = new std::vector<Object>();
  return *kept;
}

// MPI sends what it has left only while it is asked for something. A message to oneself is asked
// for, which is not sent before the end.
class LettingMpiWork {
 public:
  explicit LettingMpiWork(Transport& transport)
      : transport_(transport), receive_(transport.receive(transport.rank(), &in_, 1)) {}
  ~LettingMpiWork() {
    try {
      const Transport::Request send = transport_.send(transport_.rank(), &out_, 1, false);
      while (!transport_.done(receive_)) continue;
      while (!transport_.done(send)) continue;
    } catch (const Error&) {
      // MPI has failed: the run ends with that, or with what it is ending with.
    }
  }
  LettingMpiWork(const LettingMpiWork&) = delete;
  LettingMpiWork& operator=(const LettingMpiWork&) = delete;

  void look() { static_cast<void>(transport_.done(receive_)); }

 private:
  Transport& transport_;
  std::byte in_{};
  std::byte out_{};
  Transport::Request receive_;
};

}  // namespace

// --- What this process watches -----------------------------------------------------------------

class ProcessChecks::Watch final : public CallWatch {
 public:
  /// `calls`: is told of all; may be null.
  Watch(CallWatch* calls, std::function<void()> idle) : calls_(calls), idle_(std::move(idle)) {}

  void posted(const Call& call) override {
    if (calls_ != nullptr) calls_->posted(call);
  }
  void started(const Call& call) override {
    if (calls_ != nullptr) calls_->started(call);
  }
  void ended(const Call& call) override {
    num_looks_ = 0;
    if (calls_ != nullptr) calls_->ended(call);
  }
  void poll() override { idle_(); }
  void rest() {
    if (++num_looks_ < kSpins) {
      sched_yield();
    } else {
      ::poll(nullptr, 0, kPauseMilliseconds);
    }
  }

 private:
  CallWatch* calls_;
  std::function<void()> idle_;
  int num_looks_ = 0;
};

MessageOptions ProcessChecks::message_options(Watch& watch, double deadline_s) const {
  const WaitOptions waiting{.deadline_s = deadline_s,
                            .clock = monotonic_seconds,
                            .idle = [&watch] { watch.rest(); },
                            .watch = &watch};
  return {waiting, check_cluster(base_->size())};
}

// --- Programs ----------------------------------------------------------------------------------

struct ProcessChecks::Live {
  Live(std::unique_ptr<Transport> transport, MessageOptions options, std::function<void()> woken)
      : process(std::move(transport), std::move(options)),
        messages(process, process.fork()),
        log(std::make_shared<CallLog>(process.world(), messages, std::move(woken))) {
    log->open();
  }

  MessageRank process;
  ProcessMessages messages;
  std::shared_ptr<CallLog> log;
};

ProcessChecks::ProcessChecks(const MpiJob& job, RendezvousClient& client, CallWatch& calls,
                             const MpiCheckOptions& options)
    : options_(options),
      client_(client),
      watch_(std::make_unique<Watch>(&calls,
                                     [this] {
                                       client_.throw_if_given_up();
                                       on_idle();
                                     })),
      quiet_(std::make_unique<Watch>(nullptr, [this] { client_.throw_if_given_up(); })),
      base_(std::make_unique<MpiTransport>(job)),
      control_(std::make_unique<MessageRank>(
          base_->split(0, base_->rank()), message_options(*quiet_, kPatience * options.timeout_s))),
      control_world_(control_->world()),
      sender_(client, base_->rank(), base_->size()),
      collector_(client, base_->size()) {}

ProcessChecks::~ProcessChecks() {
  // After a failure works may be under way, and buffers in use: what they belong to stays.
  if (live_ != nullptr) kept_for_good<std::unique_ptr<Live>>().push_back(std::move(live_));
}

std::optional<CheckReport> ProcessChecks::run(const MpiProgram& program) {
  program_ = program;
  CheckOptions& options = program_->options;
  options.ranks = {size()};
  if (reports()) checker_.emplace(program_->program, options);
  CheckReport report;
  warnings_.clear();
  std::vector<int> layouts = {-1};
  if (!options.layouts.empty()) layouts.clear();
  for (std::size_t i = 0; i < options.layouts.size(); ++i) {
    if (options.layouts[i].size() == size()) layouts.push_back(static_cast<int>(i));
  }
  for (const int layout : layouts) {
    for (const std::uint64_t seed : options.seeds) {
      token_ = {.name = options.name,
                .ranks = size(),
                .steps = options.steps,
                .seed = seed,
                .layout = layout};
      const ProgramRun run = run_once(
          {.steps = options.steps,
           .seed = seed,
           .precision = options.precision,
           .layout = layout < 0 ? nullptr : &options.layouts[static_cast<std::size_t>(layout)],
           .extents = options.extents});
      ++report.schedules;
      if (!reports() || report.failure) continue;
      try {
        report.failure = checker_->judge_figures(token_, run);
      } catch (const CommunicationError& error) {
        report.failure = error.diagnosis();  // The reference failed.
      }
    }
  }
  if (!reports()) return std::nullopt;
  report.warnings = warnings_;
  report.compared_with = report.failure ? report.failure->compared_with : checker_->compared_with();
  if (!report.failure) {
    report.summary = fmt::format("{}: right on {} processes, in {} {}", options.name, size(),
                                 report.schedules, report.schedules == 1 ? "run" : "runs");
  }
  return report;
}

ProgramRun ProcessChecks::run_once(const RankContext::Setting& setting) {
  ++num_runs_;
  sender_.begin(num_runs_);
  judged_.clear();
  look_after_s_ = kFirstLookSeconds;
  next_look_s_ = 0.0;
  calls_are_right_ = false;
  waits_since_s_ = -1.0;
  told_waiting_ = false;
  control_world_->barrier({.label = "a program begins"}).wait();
  live_ =
      std::make_unique<Live>(base_->split(0, base_->rank()),
                             message_options(*watch_, options_.timeout_s), [this] { on_woken(); });
  ProcessRuntime runtime(base_->rank());
  ShownFigures figures;
  {
    RankContext context(runtime, live_->log->world(), live_->log->messages(), setting,
                        figures.shown);
    run_program_here(context);
  }
  wait_for_all();
  figures.groups = live_->log->groups();
  figures.peak_bytes = runtime.ledger()->peak();
  figures.bytes_sent = live_->messages.counters().payload_sent;
  live_->log->close_all();
  for (const GroupTraffic& group : live_->process.traffic()) {
    figures.bytes_sent += group.counters.payload_sent;
  }
  // Programs may keep handles, which ask for it.
  kept_for_good<std::shared_ptr<CallLog>>().push_back(live_->log);
  live_.reset();
  return gather(figures);
}

void ProcessChecks::run_program_here(RankContext& context) {
  CallLog& log = *live_->log;
  const auto is_over = [&] { return has_decided_ || client_.given_up(); };
  try {
    program_->program(context);
    log.end();
  } catch (const CommunicationError& error) {
    if (is_over()) throw;
    log.is_stuck() ? log.end() : log.refused(error.diagnosis());
    wait_for_verdict();
    throw;
  } catch (const Error& error) {
    if (is_over()) throw;
    log.is_stuck() ? log.end() : log.threw(error.what(), error.code(), error.fix());
    wait_for_verdict();
    throw;
  } catch (const std::exception& error) {
    if (is_over()) throw;
    log.threw(error.what(), "", "");
    wait_for_verdict();
    throw CommunicationError(
        {.code = "RANK_FAILED",
         .summary = error.what(),
         .members = {base_->rank()},
         .sides = {{.ranks = {base_->rank()}, .action = "threw an exception", .site = {}}},
         .hint = "fix the exception of this rank; the others only wait for it"});
  }
}

// Its calls are judged with those of the others. Returns if some compute for too long: then this
// process says what it knows by itself.
void ProcessChecks::wait_for_verdict() {
  CallLog& log = *live_->log;
  sender_.send(log.take_steps(), log.is_stuck() ? ProgramState::waiting : ProgramState::ended);
  look_until([] { return false; }, options_.timeout_s);
}

// Others pass the last barrier when rank 0 has found no fault in the calls.
void ProcessChecks::wait_for_all() {
  sender_.send(live_->log->take_steps(), ProgramState::ended);
  if (reports()) look_until([this] { return calls_are_right_; }, kPatience * options_.timeout_s);
  control_world_->barrier({.label = "all programs end, and their calls are right"}).wait();
}

void ProcessChecks::look_until(const std::function<bool()>& is_enough, double seconds) {
  const double begin_s = monotonic_seconds();
  LettingMpiWork mpi(*base_);
  while (!is_enough() && monotonic_seconds() - begin_s < seconds) {
    client_.throw_if_given_up();
    mpi.look();
    if (reports()) look_at_calls();
    ::poll(nullptr, 0, kPauseMilliseconds);
  }
}

// --- Waiting -----------------------------------------------------------------------------------

void ProcessChecks::on_idle() {
  if (live_ == nullptr || !live_->log->is_waiting()) return;
  const double now = monotonic_seconds();
  if (waits_since_s_ < 0.0) waits_since_s_ = now;
  if (!told_waiting_ && now - waits_since_s_ > kSecondsBeforeTelling) {
    told_waiting_ = true;
    sender_.send(live_->log->take_steps(), ProgramState::waiting);
  }
  if (told_waiting_ && reports()) look_at_calls();
}

void ProcessChecks::on_woken() {
  waits_since_s_ = -1.0;
  if (std::exchange(told_waiting_, false)) sender_.send("", ProgramState::running);
}

void ProcessChecks::look_at_calls() {
  if (monotonic_seconds() < next_look_s_) return;
  collector_.look(num_runs_, monotonic_seconds());
  look_after_s_ = std::min(2 * look_after_s_, kLastLookSeconds);
  next_look_s_ = monotonic_seconds() + look_after_s_;
  const bool all_ended = collector_.all_ended();
  if (!all_ended && collector_.seconds_at_rest() < kLastLookSeconds) return;
  if (collector_.versions() == judged_) return;
  judged_ = collector_.versions();
  const std::vector<RankLog> logs = collector_.logs();
  LoggedRun run;
  if (!logs.empty()) run = run_logged(logs);
  if (run.failure) {
    const Diagnosis failure = named(*std::move(run.failure), logs);
    has_decided_ = true;
    throw CommunicationError(failure);
  }
  if (!all_ended) return;
  calls_are_right_ = true;
  for (const Diagnosis& warning : run.warnings) {
    const auto is_same = [&](const Diagnosis& other) {
      return other.code == warning.code && other.group == warning.group;
    };
    if (std::ranges::none_of(warnings_, is_same)) warnings_.push_back(warning);
  }
}

// If the program fails in memory in the same way, runs in memory tell who is to blame.
Diagnosis ProcessChecks::named(Diagnosis failure, const std::vector<RankLog>& logs) {
  try {
    Checker::Outcome outcome = checker_->replay(token_);
    if (outcome.failure && outcome.failure->code == failure.code &&
        outcome.failure->group == failure.group && outcome.failure->members == failure.members) {
      return checker_->classify(token_, std::move(outcome));
    }
  } catch (const Error&) {
    // It needs more memory than there is, or its reference fails: then the calls alone speak.
  }
  if (failure.code == "DEADLOCK" && !run_logged(logs, SendMode::buffered).failure) {
    failure.code = "BUFFER_HAZARD";
    failure.summary += "; with buffered sends it does not hang";
  }
  return failure;
}

// --- What was shown ----------------------------------------------------------------------------

ProgramRun ProcessChecks::gather(const ShownFigures& figures) {
  const std::string mine = to_text(figures);
  const Tensor count =
      Tensor::allocate(nullptr, MemoryCategory::comm, {1}, DType::int64, /*meta=*/false);
  const Tensor all_counts =
      Tensor::allocate(nullptr, MemoryCategory::comm, {size()}, DType::int64, /*meta=*/false);
  count.set(0, static_cast<double>(mine.size()));
  control_world_->all_gather(all_counts, count).wait();
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
  for (int rank = 0; rank < size(); ++rank) {
    counts.push_back(static_cast<std::int64_t>(all_counts.get(rank)));
    total += counts.back();
  }
  const Tensor sent = bytes_tensor(std::ssize(mine));
  std::memcpy(sent.wire_data(), mine.data(), mine.size());
  const Tensor received = reports() ? bytes_tensor(total) : Tensor();
  control_world_->gather(received, sent, 0, {.counts = counts}).wait();
  if (!reports()) return {};
  const auto* data = reinterpret_cast<const char*>(received.wire_data());
  std::vector<std::string> texts;
  for (const std::int64_t bytes : counts) {
    texts.emplace_back(data, static_cast<std::size_t>(bytes));
    data += bytes;
  }
  return run_of(texts);
}

}  // namespace shardsim
