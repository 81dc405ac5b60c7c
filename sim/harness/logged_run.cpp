#include "sim/harness/logged_run.hpp"

#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "sim/kernel/error.hpp"

#include "sim/harness/program_run.hpp"

namespace shardsim {

namespace {

using Communicators = std::vector<std::unique_ptr<Communicator>>;

// A rank has done all that is known of it, and did not have to wait.
constexpr const char* kWentOn = "a rank that waits gets on";
struct WentOn : std::runtime_error {
  WentOn() : std::runtime_error(kWentOn) {}
};

// Does what one rank has done.
class RankRerun {
 public:
  RankRerun(RankContext& context, const RankLog& log) : context_(context), log_(log) {
    for (const CallStep& step : log.steps) {
      if (step.kind == CallStep::Kind::took) took_[step.work] = &step;
    }
  }

  void run() {
    for (const CallStep& step : log_.steps) run(step);
    if (!log_.ended) throw WentOn();
  }
  // Communicators that the rank has left behind.
  Communicators& groups() { return groups_; }

 private:
  void run(const CallStep& step) {
    switch (step.kind) {
      case CallStep::Kind::split:
        return split(step);
      case CallStep::Kind::call:
        return works_.push_back(post(step));
      case CallStep::Kind::message:
        return works_.push_back(post_message(step));
      case CallStep::Kind::wait:
        return works_.at(static_cast<std::size_t>(step.work)).wait();
      case CallStep::Kind::any:
        return wait_for_any(step);
      case CallStep::Kind::probe:
        return probe(step);
      case CallStep::Kind::took:
        return;
      case CallStep::Kind::drop:
        works_.at(static_cast<std::size_t>(step.work)) = Work();
        return;
      case CallStep::Kind::close:
        groups_.at(static_cast<std::size_t>(step.group - 1)).reset();
        return;
      case CallStep::Kind::refused:
        throw CommunicationError(step.report);
      case CallStep::Kind::threw:
        raise(step.report);
    }
  }

  // A rank that got on has waited for the one that ended, which is a step of its own.
  void wait_for_any(const CallStep& step) {
    if (log_.ended || &step != &log_.steps.back()) return;
    std::vector<Work> works;
    for (const std::int64_t number : step.counts) {
      works.push_back(std::move(works_.at(static_cast<std::size_t>(number))));
    }
    static_cast<void>(wait_any(works));
    throw WentOn();
  }

  // The same of one that has found a message: the receive of it is a step of its own.
  void probe(const CallStep& step) {
    if (log_.ended || &step != &log_.steps.back()) return;
    const CallSite site = step.record.site;
    static_cast<void>(context_.messages().probe(step.peer, step.tag, DType::int8, site));
    throw WentOn();
  }

  [[noreturn]] static void raise(const Diagnosis& thrown) {
    if (thrown.code.empty()) throw std::runtime_error(thrown.summary);
    throw Error(ExitCode::check_failed, thrown.code, thrown.summary, thrown.hint);
  }

  Communicator& group(int number) {
    return number == 0 ? context_.world() : *groups_.at(static_cast<std::size_t>(number - 1));
  }

  Tensor buffer(DType dtype, std::int64_t count) {
    if (count < 0) return {};
    return context_.runtime().allocate(MemoryCategory::comm, {count}, dtype);
  }

  void split(const CallStep& step) {
    auto made = group(step.group).split(step.color, step.key, step.name, step.record.site);
    if (made != nullptr) groups_.push_back(std::move(made));
  }

  Work post(const CallStep& step) {
    const Tensor none;
    std::vector<P2pOp> halves;
    for (const CallStep::Half& half : step.halves) {
      halves.push_back({half.sends ? P2pOp::Kind::send : P2pOp::Kind::recv,
                        buffer(half.dtype, half.count), half.peer});
    }
    const Work* const after =
        step.after < 0 ? nullptr : &works_.at(static_cast<std::size_t>(step.after));
    const CallOptions options{.label = step.record.label,
                              .after = after != nullptr && after->pending() ? after : nullptr,
                              .counts = step.counts,
                              .padding = step.record.padding,
                              .padding_at = step.padding_at,
                              .traffic = step.record.traffic};
    return group(step.group)
        .post({.kind = step.call,
               .collective = step.collective,
               .record = step.record,
               .options = &options,
               .output = &none,
               .input = &none,
               .send_counts = step.send_counts,
               .recv_counts = step.recv_counts,
               .halves = halves});
  }

  // A receive that left open what it takes names the message that it took, if it took one.
  Work post_message(const CallStep& step) {
    const CallRecord& record = step.record;
    const CallOptions options{.label = record.label, .traffic = record.traffic};
    const Tensor data = buffer(record.dtype, record.count);
    TaggedMessages& messages = context_.messages();
    if (step.sends) return messages.send(data, step.peer, step.tag, options, record.site);
    const auto known = took_.find(static_cast<int>(works_.size()));
    const CallStep& named = known == took_.end() ? step : *known->second;
    return messages.recv(data, named.peer, named.tag, nullptr, options, record.site);
  }

  RankContext& context_;
  const RankLog& log_;
  std::map<int, const CallStep*> took_;  // By number of the receive.
  Communicators groups_;                 // But for the world.
  std::vector<Work> works_;              // By number.
};

}  // namespace

RankLog rank_log_of(const std::string& steps, bool ended) {
  RankLog log{.steps = {}, .ended = ended};
  StepReader reader(steps);
  while (!reader.at_end()) transfer(reader, log.steps.emplace_back());
  return log;
}

LoggedRun run_logged(const std::vector<RankLog>& logs, SendMode sends) {
  LoggedRun logged;
  std::vector<Communicators> left(logs.size());  // They outlive the run, as in the program.
  const Program program = [&](RankContext& context) {
    const auto rank = static_cast<std::size_t>(context.rank());
    RankRerun rerun(context, logs[rank]);
    rerun.run();
    left[rank] = std::move(rerun.groups());
  };
  const ProgramSetting setting{
      .ranks = static_cast<int>(logs.size()), .of_ranks = {}, .watch = true, .has_data = false};
  ListChooser chooser;
  ProgramRun run = run_program(program, setting, {.sends = sends}, chooser);
  // A failure that came before counts.
  logged.goes_on = run.failure && run.failure->summary.find(kWentOn) != std::string::npos;
  if (!logged.goes_on) logged.failure = std::move(run.failure);
  logged.warnings = std::move(run.warnings);
  return logged;
}

}  // namespace shardsim
