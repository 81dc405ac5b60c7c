#include "backends/program/program.hpp"

#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "backends/program/recorder.hpp"

// Programs as values: rows, comparison, and what is refused.
namespace shardsim::test {
namespace {

// A rank of a mesh of 2 x 3: rows are its pairs, columns its triples.
void run_in_mesh(Runtime& runtime, Communicator& world, int bytes, bool follows) {
  const RankSpan pairs{.axes = {{{2, 1}}}, .size = 2};
  const RankSpan triples{.axes = {{{3, 2}}}, .size = 3};
  const auto pair = world.subgroup(pairs.around(world.rank()), "pair");
  const auto triple = world.subgroup(triples.around(world.rank()), "triple");
  const Tensor buffer = runtime.allocate(MemoryCategory::comm, {bytes}, DType::int8);
  Work first = pair->all_reduce(buffer, ReduceOp::sum);
  CallOptions options;
  if (follows) options.after = &first;
  Work second = triple->all_reduce(buffer, ReduceOp::sum, options);
  runtime.compute({"work", ComputeKind::memory_bound, DType::fp32, 7, bytes}, [] {});
  second.wait();
  first.wait();
}

RankProgram recorded(Recorder& recorder, int rank, int bytes = 100, bool follows = true) {
  return recorder.record(rank, [=](Runtime& runtime, Communicator& world, ProgramWriter&) {
    run_in_mesh(runtime, world, bytes, follows);
  });
}

std::string refusal(const Recorder::RankBody& body) {
  Recorder recorder(4);
  try {
    const RankProgram program = recorder.record(0, body);
  } catch (const NotRecordable& refused) {
    return refused.reason;
  }
  return "";
}

}  // namespace

TEST_CASE("ranks that do the same in groups around them have equal programs") {
  Recorder recorder(6);
  const RankProgram base = recorded(recorder, 0);
  for (int rank = 1; rank < 6; ++rank) {
    const RankProgram other = recorded(recorder, rank);
    CHECK(same_program(base, other));
    CHECK(difference_of(base, other).empty());
  }
  CHECK(base.num_works == 2);
  CHECK(base.num_allocations == 1);
  CHECK(base.steps.size() == 10);
}

TEST_CASE("a difference of programs is told by step and rank") {
  Recorder recorder(6);
  const RankProgram base = recorded(recorder, 0);
  const RankProgram larger = recorded(recorder, 3, 101);
  CHECK_FALSE(same_program(base, larger));
  CHECK(difference_of(base, larger) ==
        "step 2 of ranks 0 and 3 is allocate #0 comm 100 bytes and allocate #0 comm 101 bytes");
  const RankProgram loose = recorded(recorder, 1, 100, false);
  CHECK(difference_of(base, loose) ==
        "step 4 of ranks 0 and 1 is follow work 0 and post work 1 triple: all_reduce sum int8 x "
        "100");
  RankProgram shorter = base;
  shorter.steps.pop_back();
  CHECK(difference_of(base, shorter) == "step 9 of ranks 0 and 0 is release #0 and the end");
}

TEST_CASE("groups of another form are another program") {
  Recorder recorder(6);
  const auto with = [&](int rank, const RankSpan& members) {
    return recorder.record(rank, [&](Runtime&, Communicator& world, ProgramWriter&) {
      const auto group = world.subgroup(members, "part");
    });
  };
  const RankSpan half = RankSpan::line(6).part(0, 1, 3);
  const RankSpan odd = RankSpan::line(6).part(1, 2, 3);
  CHECK(same_program(with(0, half), with(4, RankSpan::line(6).part(3, 1, 3))));
  CHECK(difference_of(with(1, half), with(1, odd)) ==
        "ranks 1 and 1 are in groups of other forms at part");
  CHECK(difference_of(with(0, half), with(1, RankSpan::none())) ==
        "ranks 0 and 1 are in groups of other forms at part");
}

TEST_CASE("a label is its text, wherever it lies") {
  Recorder recorder(1);
  std::string label = "bucket 1";
  const auto program = [&] {
    return recorder.record(0, [&](Runtime&, Communicator& world, ProgramWriter&) {
      world.barrier({.label = label.c_str()}).wait();
    });
  };
  const RankProgram first = program();
  label[7] = '2';  // At the same address.
  const RankProgram second = program();
  CHECK_FALSE(same_program(first, second));
  label[7] = '1';
  CHECK(same_program(first, program()));
  CHECK(describe(first, first.steps[0]) == "post work 0 world: barrier \"bucket 1\"");
}

TEST_CASE("what only a run can answer is not recorded") {
  CHECK(refusal([](Runtime&, Communicator& world, ProgramWriter&) {
          const auto group = world.split(0, 0, "half");
        }) == "group half is formed by colors, so its members are not known");
  CHECK(refusal([](Runtime&, Communicator& world, ProgramWriter&) {
          const auto group = world.subgroup(RankSpan::line(4).part(1, 1, 2), "half");
        }) == "a rank names a group half without itself");
  CHECK(refusal([](Runtime&, Communicator& world, ProgramWriter&) {
          Work dropped = world.barrier();
        }) == "a rank ends without waiting for all its works");
}

TEST_CASE("what a rank leaves behind is refused, and is safe to use") {
  Recorder recorder(4);
  std::unique_ptr<Communicator> kept;
  Work left;
  const auto leave = [&](Runtime&, Communicator& world, ProgramWriter&) {
    kept = world.subgroup(RankSpan::line(4), "kept");
    left = kept->barrier();
  };
  std::string reason;
  try {
    const RankProgram program = recorder.record(0, leave);
  } catch (const NotRecordable& refused) {
    reason = refused.reason;
  }
  CHECK(reason == "a rank ends without destroying all its groups");
  CHECK_THROWS_AS(kept->barrier(), UsageError);
  CHECK_THROWS_AS(left.wait(), UsageError);
}

}  // namespace shardsim::test
