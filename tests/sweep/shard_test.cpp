#include "sim/sweep/shard.hpp"

#include <map>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

// Which shard a process is, from its flag or its launcher.
namespace shardsim::test {

namespace {

using Variables = std::map<std::string, std::string>;

Shard automatic(const Variables& variables) {
  return shard_of("auto", [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

std::string words(const Shard& shard) {
  return std::to_string(shard.index) + "/" + std::to_string(shard.count) + " " + shard.source;
}

std::string refusal_of(const Variables& variables) {
  try {
    return "taken as " + words(automatic(variables));
  } catch (const Error& error) {
    return error.code() + " " + error.what();
  }
}

const Variables kArray = {{"SLURM_ARRAY_TASK_ID", "5"},
                          {"SLURM_ARRAY_TASK_MIN", "1"},
                          {"SLURM_ARRAY_TASK_COUNT", "4"},
                          {"SLURM_ARRAY_TASK_STEP", "2"}};
const Variables kStep = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "3"}, {"SLURM_STEP_ID", "0"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
const Variables kPmi = {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}};
const Variables kTorchrun = {{"RANK", "6"}, {"WORLD_SIZE", "8"}};

Variables both(Variables one, const Variables& other) {
  one.insert(other.begin(), other.end());
  return one;
}

}  // namespace

TEST_CASE("a shard is i/n, and points are dealt in turn", "[sweep]") {
  CHECK(words(shard_of("2/5")) == "2/5 --shard");
  const Shard shard = shard_of("1/3");
  CHECK(shard.has(4));
  CHECK_FALSE(shard.has(5));
  CHECK(shard.share_of(5) == 2);
  CHECK(shard.share_of(4) == 1);
  CHECK(shard_of("0/3").share_of(4) == 2);
  CHECK(shard_of("2/3").share_of(2) == 0);
  for (const char* text : {"", "1", "3/3", "-1/3", "1/0", "1/2/3", "a/b", "1/ 2", "0/1000001"}) {
    CHECK_THROWS_AS(shard_of(text), UsageError);
  }
}

TEST_CASE("launchers say which shard a process is", "[sweep]") {
  CHECK(words(automatic({})) == "0/1 ");
  CHECK(words(automatic(kArray)) == "2/4 a Slurm array");
  CHECK(words(automatic(kStep)) == "1/3 slurm");
  CHECK(words(automatic(kOpenMpi)) == "1/2 openmpi");
  CHECK(words(automatic(kPmi)) == "2/4 pmi");
  CHECK(words(automatic(kTorchrun)) == "6/8 torchrun");
}

TEST_CASE("a batch script is no step, and one process is no division", "[sweep]") {
  CHECK(words(automatic({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}})) == "0/1 ");
  const Variables one = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}};
  CHECK(words(automatic(both(kArray, one))) == "2/4 a Slurm array");
  CHECK(words(automatic(both({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, kOpenMpi))) == "1/2 openmpi");
}

TEST_CASE("launchers that disagree are an error that names both", "[sweep]") {
  CHECK(refusal_of(both(kArray, kOpenMpi)) ==
        "E1314 a Slurm array says shard 2 of 4, but openmpi says 1 of 2");
  CHECK(refusal_of(both(kTorchrun, kOpenMpi)) ==
        "E1314 torchrun says shard 6 of 8, but openmpi says 1 of 2");
  // Open MPI's daemons are a step of their own.
  CHECK(words(automatic(both(kStep, kOpenMpi))) == "1/2 openmpi");
  CHECK(words(automatic(both(kPmi, {{"RANK", "2"}, {"WORLD_SIZE", "4"}}))) == "2/4 torchrun");
}

TEST_CASE("arrays with gaps and broken variables are refused", "[sweep]") {
  Variables gaps = kArray;
  gaps["SLURM_ARRAY_TASK_ID"] = "4";
  CHECK(refusal_of(gaps).rfind("E1313 task 4 is none of 4 tasks from 1 in steps of 2", 0) == 0);
  gaps["SLURM_ARRAY_TASK_ID"] = "9";
  CHECK(refusal_of(gaps).rfind("E1313", 0) == 0);
  gaps["SLURM_ARRAY_TASK_ID"] = "x";
  CHECK(refusal_of(gaps) ==
        "E1313 environment variable SLURM_ARRAY_TASK_ID is \"x\", not a whole number");
  CHECK(refusal_of({{"SLURM_ARRAY_TASK_ID", "1"}}).rfind("E1313", 0) == 0);
  CHECK(refusal_of({{"PMIX_RANK", "1"}}).rfind("E1313 PMIX_RANK is set", 0) == 0);
}

}  // namespace shardsim::test
