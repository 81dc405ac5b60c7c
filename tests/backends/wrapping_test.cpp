#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "backends/wrapping_communicator.hpp"

#include "tests/backends/fiber_fixture.hpp"

// A communicator around another, as users write one: it overrides `post` and sees every call.
namespace shardsim {

namespace {

class Listener final : public WrappingCommunicator {
 public:
  Listener(Communicator& inner, std::vector<std::string>& heard)
      : WrappingCommunicator(inner), heard_(heard) {}
  Listener(std::unique_ptr<Communicator> inner, std::vector<std::string>& heard)
      : WrappingCommunicator(std::move(inner)), heard_(heard) {}

  Work post(const Call& call) override {
    heard_.push_back(name() + ": " + call.record.describe());
    return inner().post(call);
  }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override {
    return std::make_unique<Listener>(inner().split(color, key, name, site), heard_);
  }

 private:
  std::vector<std::string>& heard_;
};

// Every call once, over a group of two.
void call_all(Runtime& runtime, Communicator& group) {
  const int other = 1 - group.rank();
  const auto make = [&](std::int64_t count) {
    return filled(runtime, count, DType::fp32, [](std::int64_t i) { return double(i); });
  };
  const Tensor full = make(4);
  const Tensor own = make(2);
  group.all_reduce(full, ReduceOp::sum, {.label = "sum"}).wait();
  group.reduce_scatter(own, full, ReduceOp::max).wait();
  group.all_gather(full, own).wait();
  group.all_to_all(make(4), full, {}, {}).wait();
  group.broadcast(full, 1).wait();
  group.reduce(full, ReduceOp::avg, 0).wait();
  group.gather(full, own, 1).wait();
  group.scatter(own, full, 0).wait();
  group.barrier().wait();
  if (group.rank() == 0) group.send(own, other).wait();
  if (group.rank() == 1) group.recv(own, other).wait();
  const P2pOp halves[] = {{P2pOp::Kind::send, own, other}, {P2pOp::Kind::recv, make(2), other}};
  group.batch(halves).wait();
}

}  // namespace

TEST_CASE("a wrapper that overrides post hears every call once, those of split groups included") {
  std::vector<std::string> heard;
  std::vector<std::string> other;
  run_ranks(2, [&](Runtime& runtime, Communicator& world) {
    Listener listener(world, world.rank() == 0 ? heard : other);
    call_all(runtime, listener);
    Communicator& wrapped = listener;
    const auto pair = wrapped.split(0, world.rank(), "pair");
    pair->barrier().wait();
  });
  CHECK(heard == std::vector<std::string>{
                     "world: all_reduce sum fp32 x 4 \"sum\"",
                     "world: reduce_scatter max fp32 x 4",
                     "world: all_gather fp32 x 4",
                     "world: all_to_all fp32",
                     "world: broadcast fp32 x 4 root 1",
                     "world: reduce avg fp32 x 4 root 0",
                     "world: gather fp32 x 4 root 1",
                     "world: scatter fp32 x 4 root 0",
                     "world: barrier",
                     "world: send fp32 x 2 to 1",
                     "world: batch of 2",
                     "pair: barrier",
                 });
  CHECK(other.size() == heard.size());
}

TEST_CASE("a kind that is chosen at run time is posted as its own call is") {
  std::vector<std::string> heard;
  std::vector<std::string> other;
  run_ranks(2, [&](Runtime& runtime, Communicator& world) {
    Listener group(world, world.rank() == 0 ? heard : other);
    const Tensor full = filled(runtime, 4, DType::fp32, [](std::int64_t i) { return double(i); });
    const Tensor own = full.view(2 * world.rank(), {2});
    for (const CollectiveRow& row : kCollectiveRows) {
      if (row.kind == CollectiveKind::split) continue;
      const Tensor input = row.input == BufferPart::chunk ? own : full;
      Tensor output = row.output == BufferPart::chunk ? own : full;
      if (row.kind == CollectiveKind::all_to_all) {
        output = filled(runtime, 4, DType::fp32, [](std::int64_t) { return 0.0; });
      }
      group.collective(row, output, input, ReduceOp::max, 1).wait();
    }
  });
  CHECK(heard == std::vector<std::string>{
                     "world: all_reduce max fp32 x 4",
                     "world: reduce_scatter max fp32 x 4",
                     "world: all_gather fp32 x 4",
                     "world: all_to_all fp32",
                     "world: broadcast fp32 x 4 root 1",
                     "world: reduce max fp32 x 4 root 1",
                     "world: gather fp32 x 4 root 1",
                     "world: scatter fp32 x 4 root 1",
                     "world: barrier",
                 });
  CHECK(other.size() == heard.size());
}

TEST_CASE("a call through a wrapper names the line that made it, and is refused as without one") {
  std::vector<std::string> heard;
  const auto refused = [&](bool wrapped) {
    return diagnosis_of(2, [&, wrapped](Runtime& runtime, Communicator& world) {
      Listener listener(world, heard);
      Communicator& group = wrapped ? static_cast<Communicator&>(listener) : world;
      const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
      group.broadcast(full, 2).wait();
    });
  };
  const Diagnosis through = refused(true);
  CHECK(through.code == "ARG_RANGE");
  CHECK(through.to_text() == refused(false).to_text());
  CHECK(std::string(through.sides.at(0).site.file).find("wrapping_test") != std::string::npos);
  CHECK(heard.empty());
}

}  // namespace shardsim
