#include <memory>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// A reduce op outside its enumeration was taken, and so was any negative color: it made a group of
// its own. (tests/backends has the same for all backends.)
namespace shardsim {

TEST_CASE("a reduce op outside its enumeration is a diagnosis") {
  const Diagnosis diagnosis = diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1}, DType::fp64);
    world.all_reduce(buffer, static_cast<ReduceOp>(9)).wait();
  });
  CHECK(diagnosis.code == "ARG_RANGE");
  CHECK(diagnosis.summary.find("the reduce op is 9") != std::string::npos);
}

TEST_CASE("a negative color is a diagnosis, and the color of no group is none") {
  const Diagnosis diagnosis = diagnosis_of(2, [](Runtime&, Communicator& world) {
    static_cast<void>(world.split(world.rank() == 1 ? -2 : 0, 0, "part"));
  });
  CHECK(diagnosis.code == "ARG_RANGE");
  CHECK(diagnosis.summary.find("the color is -2") != std::string::npos);
  run_ranks(2, [](Runtime&, Communicator& world) {
    const bool joins = world.rank() == 0;
    CHECK((world.split(joins ? 0 : kNoColor, 0, "part") != nullptr) == joins);
  });
}

}  // namespace shardsim
