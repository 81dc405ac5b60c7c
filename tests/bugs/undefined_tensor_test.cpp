#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"
#include "tests/backends/fiber_fixture.hpp"

// A default Tensor reports one element, so it once passed every check of sizes: a broadcast of one
// was a segmentation fault, and a tagged message of one passed in silence. (tests/backends has the
// table of all calls.)
namespace shardsim {

TEST_CASE("a broadcast of an undefined tensor is a diagnosis and no crash") {
  const Diagnosis diagnosis = diagnosis_of(2, [](Runtime&, Communicator& world) {
    const Tensor undefined;
    world.broadcast(undefined, 0).wait();
  });
  CHECK(diagnosis.code == "ARG_RANGE");
  CHECK(diagnosis.summary == "broadcast on rank 0: `buffer` is an undefined tensor");
}

TEST_CASE("a tagged message and a shown value of an undefined tensor are diagnoses") {
  const auto code_of = [](const Program& program) {
    CheckOptions options;
    options.ranks = {2};
    options.steps = 1;
    const CheckReport report = check(program, options);
    return report.failure ? report.failure->code : "NONE";
  };
  CHECK(code_of([](RankContext& rank) {
          if (rank.size() == 1) return;
          if (rank.rank() == 0) rank.messages().send(Tensor(), 1, 0).wait();
          if (rank.rank() == 1) rank.messages().recv(rank.tensor(1), 0, 0).wait();
        }) == "ARG_RANGE");
  CHECK(code_of([](RankContext& rank) {
          if (rank.size() == 1) return;
          if (rank.rank() == 0) rank.messages().send(rank.tensor(1), 1, 0).wait();
          if (rank.rank() == 1) rank.messages().recv(Tensor(), 0, 0).wait();
        }) == "ARG_RANGE");
  for (const Shown what :
       {Shown::gradient, Shown::parameter, Shown::optimizer_state, Shown::activation_gradient,
        Shown::output, Shown::norm, Shown::tokens, Shown::random}) {
    INFO(static_cast<int>(what));
    CHECK(code_of([&](RankContext& rank) { rank.show(what, "y", Tensor()); }) == "ARG_RANGE");
  }
}

}  // namespace shardsim
