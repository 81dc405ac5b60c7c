#include "tests/program/written_run.hpp"

#include <deque>
#include <utility>

#include "backends/program/recorder.hpp"
#include "backends/wrapping_communicator.hpp"

#include "strategies/mesh.hpp"

namespace shardsim::test {
namespace {

// A work of the run, and its number in the program.
struct WrittenWork {
  Work inner;
  std::uint32_t slot = 0;
};

class WrittenCommunicator final : public WrappingCommunicator, private WorkOwner {
 public:
  WrittenCommunicator(Communicator& world, ProgramWriter& writer)
      : WrappingCommunicator(world), writer_(writer) {}
  WrittenCommunicator(std::unique_ptr<Communicator> inner, ProgramWriter& writer, int group)
      : WrappingCommunicator(std::move(inner)), writer_(writer), group_(group) {}

  Work post(const Call& call) override {
    CallOptions options = *call.options;
    Call passed = call;
    passed.options = &options;
    std::uint32_t after = ProgramWriter::kNoWork;
    if (options.after != nullptr) {
      const auto& prior = *static_cast<WrittenWork*>(options.after->operation());
      after = prior.slot;
      options.after = &prior.inner;
    }
    const std::uint32_t slot = writer_.post(group_, call, after);
    works_.push_back({inner().post(passed), slot});
    return {*this, &works_.back()};
  }
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(const RankSpan& members,
                                                       const std::string& name,
                                                       CallSite site) override {
    const int group = writer_.join(group_, name, members);
    std::unique_ptr<Communicator> made = inner().subgroup(members, name, site);
    if (made == nullptr) return nullptr;
    return std::make_unique<WrittenCommunicator>(std::move(made), writer_, group);
  }

 private:
  void wait(void* operation) override {
    auto& work = *static_cast<WrittenWork*>(operation);
    writer_.wait(work.slot);
    work.inner.wait();
  }
  void abandon(void* /*operation*/) noexcept override {}

  ProgramWriter& writer_;
  int group_ = 0;
  std::deque<WrittenWork> works_;
};

class WrittenLedger final : private MemoryListener {
 public:
  WrittenLedger(MemoryLedger& ledger, ProgramWriter& writer, bool on_host)
      : ledger_(ledger), writer_(writer), on_host_(on_host), before_(ledger.now()) {
    ledger.set_listener(this);
  }
  ~WrittenLedger() override { ledger_.set_listener(nullptr); }

 private:
  void memory_changed(MemoryCategory category, std::int64_t /*bytes_now*/) override {
    const auto index = static_cast<std::size_t>(category);
    const std::int64_t change = ledger_.now().at(index) - before_.at(index);
    before_ = ledger_.now();
    AllocationMark& mark = AllocationOwner::current();
    if (mark == 0) {
      mark = writer_.allocate(writer_.row_of({category, on_host_, change})) + 1;
    } else {
      writer_.release(mark - 1);
      mark = 0;
    }
  }

  MemoryLedger& ledger_;
  ProgramWriter& writer_;
  bool on_host_;
  MemoryUse before_;
};

class WrittenRuntime final : public Runtime {
 public:
  WrittenRuntime(Runtime& inner, ProgramWriter& writer)
      : inner_(inner),
        writer_(writer),
        device_(*inner.ledger(), writer, false),
        host_(*inner.host_ledger(), writer, true) {}

  [[nodiscard]] bool has_data() const override { return false; }
  [[nodiscard]] MemoryLedger* ledger() override { return inner_.ledger(); }
  [[nodiscard]] MemoryLedger* host_ledger() override { return inner_.host_ledger(); }
  void open_streams(std::uint32_t streams, std::uint32_t events) override {
    inner_.open_streams(streams, events);
  }
  void use_stream(std::uint32_t stream) override {
    writer_.use_stream(stream);
    inner_.use_stream(stream);
  }
  void record_event(std::uint32_t event) override {
    writer_.record_event(event);
    inner_.record_event(event);
  }
  void wait_event(std::uint32_t event) override {
    writer_.wait_event(event);
    inner_.wait_event(event);
  }
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts) override {
    writer_.tally(name, first, amounts);
    inner_.tally(name, first, amounts);
  }

 protected:
  void charge(const ComputeOp& op) override {
    writer_.compute(op);
    inner_.compute(op, [] {});
  }
  [[nodiscard]] bool planned_decision(const char* name, bool planned) override {
    writer_.synchronize();
    return inner_.decide(name, false, planned);
  }
  [[nodiscard]] std::optional<Numbers> replayed_numbers(const char* name) override {
    writer_.synchronize();
    return inner_.decide_numbers(name, [] { return Numbers(); });
  }

 private:
  Runtime& inner_;
  ProgramWriter& writer_;
  WrittenLedger device_;
  WrittenLedger host_;
};

class MarkingObserver final : public TrainingObserver {
 public:
  explicit MarkingObserver(ProgramWriter& writer) : writer_(writer) {}
  void step_begins(std::int64_t step) override {
    writer_.mark({.kind = ProgramMark::Kind::step_begins, .step = step});
  }
  void step_ends(std::int64_t step, const GradientSync& /*sync*/,
                 std::optional<double> /*loss*/) override {
    writer_.mark({.kind = ProgramMark::Kind::step_ends, .step = step});
  }

 private:
  ProgramWriter& writer_;
};

void train(const ParallelPlan& plan, Runtime& runtime, Communicator& everyone,
           ProgramWriter& writer) {
  Mesh mesh(everyone, plan.options().mesh);
  MarkingObserver observer(writer);
  plan.train_rank(runtime, mesh, observer);
}

}  // namespace

BothPrograms both_programs(const Experiment& experiment) {
  const ParallelPlan& plan = experiment.plan();
  const int ranks = plan.options().mesh.size();
  BothPrograms both;
  Recorder recorder(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    both.recorded.push_back(
        recorder.record(rank, [&](Runtime& runtime, Communicator& everyone, ProgramWriter& writer) {
          train(plan, runtime, everyone, writer);
        }));
    both.run.push_back(recorder.begin(rank));
  }
  FiberOptions options = experiment.world();
  options.fold = nullptr;
  FiberWorld world(std::move(options));
  world.run([&](Runtime& runtime, Communicator& everyone) {
    RankProgram& program = both.run[static_cast<std::size_t>(everyone.rank())];
    ProgramWriter writer(program, recorder.tables());
    {
      WrittenRuntime written(runtime, writer);
      WrittenCommunicator written_world(everyone, writer);
      train(plan, written, written_world, writer);
    }
    writer.finish();
  });
  return both;
}

}  // namespace shardsim::test
