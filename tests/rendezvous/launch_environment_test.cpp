#include "backends/rendezvous/launch_environment.hpp"

#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

namespace shardsim {
namespace {

using Environment = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Environment& environment) {
  return [environment](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
}

std::optional<LaunchedRank> launched_by(const Environment& environment) {
  return find_launched_rank(lookup_in(environment));
}

// The message of the Error that an environment is refused with.
std::string refusal_of(const Environment& environment) {
  try {
    static_cast<void>(launched_by(environment));
  } catch (const Error& error) {
    CHECK(error.code() == "E1000");
    CHECK(error.exit_code() == ExitCode::bad_usage);
    return error.what();
  }
  return "accepted";
}

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node7"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "night"}};
const Environment kSlurm = {{"SLURM_PROCID", "6"},       {"SLURM_NTASKS", "7"},
                            {"SLURM_LOCALID", "2"},      {"SLURM_STEP_ID", "0"},
                            {"SLURM_NODEID", "1"},       {"SLURM_TASKS_PER_NODE", "4,3"},
                            {"SLURM_JOB_ID", "1234567"}, {"SLURM_JOB_NODELIST", "gpu[003-006,9]"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};

Environment with(Environment environment, const Environment& others) {
  for (const auto& [name, value] : others) environment[name] = value;
  return environment;
}

}  // namespace

TEST_CASE("without a launcher's variables a process is no rank") {
  CHECK(!launched_by({}));
  CHECK(!launched_by({{"SLURM_NTASKS", "8"}, {"RANK", "gold"}, {"HOME", "/root"}}));
}

TEST_CASE("each launcher's variables say which rank this is") {
  const std::optional<LaunchedRank> torchrun = launched_by(kTorchrun);
  REQUIRE(torchrun);
  CHECK(torchrun->source == "torchrun");
  CHECK(torchrun->rank == 5);
  CHECK(torchrun->world_size == 8);
  CHECK(torchrun->local_rank == 1);
  CHECK(torchrun->local_size == 4);
  CHECK(torchrun->job == "night");
  CHECK(torchrun->master_address == "node7");
  CHECK(torchrun->master_port == 29501);  // torchrun itself listens on the other.

  const std::optional<LaunchedRank> slurm = launched_by(kSlurm);
  REQUIRE(slurm);
  CHECK(slurm->source == "slurm");
  CHECK(slurm->rank == 6);
  CHECK(slurm->world_size == 7);
  CHECK(slurm->local_rank == 2);
  CHECK(slurm->local_size == 3);
  CHECK(slurm->job == "1234567");
  CHECK(slurm->master_address == "gpu003");
  CHECK(slurm->master_port == 24567);

  const std::optional<LaunchedRank> openmpi = launched_by(kOpenMpi);
  REQUIRE(openmpi);
  CHECK(openmpi->source == "openmpi");
  CHECK(openmpi->rank == 3);
  CHECK(openmpi->local_size == 4);
  CHECK(!openmpi->master_address);

  const std::optional<LaunchedRank> pmi = launched_by({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  REQUIRE(pmi);
  CHECK(pmi->source == "pmi");
  CHECK(pmi->world_size == 2);
  CHECK(!pmi->local_rank);
}

TEST_CASE("a batch script of Slurm is no rank, a step of srun is") {
  Environment script = kSlurm;
  script.erase("SLURM_STEP_ID");
  CHECK(!launched_by(script));
  // The batch step of today's Slurm and of older ones, an interactive step, and what is no number.
  for (const char* step :
       {"4294967291", "4294967294", "4294967290", "-5", "batch", "", "99999999999"}) {
    INFO(step);
    CHECK(!launched_by(with(script, {{"SLURM_STEP_ID", step}})));
  }
  CHECK(launched_by(with(script, {{"SLURM_STEP_ID", "17"}})));
  // mpirun in it starts ranks all the same.
  CHECK(launched_by(with(script, kOpenMpi))->source == "openmpi");
}

TEST_CASE("of several launchers the innermost decides") {
  // mpirun in a batch script: its ranks all inherit the script's SLURM_PROCID.
  CHECK(launched_by(with(kSlurm, kOpenMpi))->rank == 3);
  CHECK(launched_by(with(with(kSlurm, kOpenMpi), kTorchrun))->source == "torchrun");
  const Environment ours = {{"SHARDSIM_RANK", "1"}, {"SHARDSIM_WORLD_SIZE", "2"}};
  CHECK(launched_by(with(kTorchrun, ours))->source == "shardsim");
}

TEST_CASE("SHARDSIM_RENDEZVOUS and SHARDSIM_PORT say where the rendezvous is") {
  const auto there = launched_by(with(kOpenMpi, {{"SHARDSIM_RENDEZVOUS", "127.0.0.1:4567"}}));
  CHECK(there->master_address == "127.0.0.1");
  CHECK(there->master_port == 4567);
  CHECK(launched_by(with(kTorchrun, {{"SHARDSIM_PORT", "7000"}}))->master_port == 7000);
  CHECK(launched_by(with(kSlurm, {{"SHARDSIM_PORT", "7000"}}))->master_port == 7000);
  CHECK(parse_host_and_port("[::1]:80")->host == "::1");
  for (const char* text : {"host", "host:", ":80", "host:0", "host:65536", "host:8x", "::1:80"}) {
    INFO(text);
    CHECK(!parse_host_and_port(text));
  }
}

TEST_CASE("a malformed or contradicting variable is named") {
  const struct {
    Environment base;
    std::string name;
    std::string value;
  } cases[] = {
      {kTorchrun, "RANK", "five"},
      {kTorchrun, "RANK", ""},
      {kTorchrun, "RANK", "-1"},
      {kTorchrun, "RANK", "8"},
      {kTorchrun, "WORLD_SIZE", "0"},
      {kTorchrun, "WORLD_SIZE", "99999999999999999999"},
      {kTorchrun, "LOCAL_RANK", "4"},
      {kTorchrun, "LOCAL_WORLD_SIZE", "9"},
      {kTorchrun, "MASTER_PORT", "65535"},
      {kTorchrun, "MASTER_ADDR", ""},
      {kOpenMpi, "OMPI_COMM_WORLD_SIZE", "4.0"},
      {kOpenMpi, "SHARDSIM_RENDEZVOUS", "nowhere"},
      {kOpenMpi, "SHARDSIM_PORT", "0"},
      {kSlurm, "SLURM_NODEID", "2"},
      {kSlurm, "SLURM_TASKS_PER_NODE", "4(x"},
      {kSlurm, "SLURM_JOB_NODELIST", "gpu[003"},
  };
  for (const auto& each : cases) {
    INFO(each.name << "=" << each.value);
    const std::string message = refusal_of(with(each.base, {{each.name, each.value}}));
    const bool about_nodes = each.name == "SLURM_NODEID";
    CHECK_THAT(message, Catch::Contains(about_nodes ? "SLURM_TASKS_PER_NODE" : each.name));
  }
  CHECK_THAT(refusal_of({{"SHARDSIM_RANK", "0"}}), Catch::Contains("SHARDSIM_WORLD_SIZE is not"));
}

TEST_CASE("the first machine of a Slurm list") {
  const std::pair<const char*, const char*> lists[] = {
      {"gpu[003-006,9]", "gpu003"},
      {"gpu[9,003-006]", "gpu9"},
      {"login1", "login1"},
      {"a-1.cluster,b[1-2]", "a-1.cluster"},
      {"rack[1-2]node[03-04]", "rack1node03"},
      {"n[12]", "n12"},
  };
  for (const auto& [list, first] : lists) CHECK(first_slurm_node(list) == std::string(first));
  for (const char* wrong : {"", ",a", "a[", "a[]", "a[1-2", "a[x]", "a]", "a b", "a[,1]"}) {
    INFO(wrong);
    CHECK(!first_slurm_node(wrong));
  }
  CHECK(slurm_tasks_on_node("4(x2),3", 1) == 4);
  CHECK(slurm_tasks_on_node("4(x2),3", 2) == 3);
  CHECK(!slurm_tasks_on_node("4(x2),3", 3));
}

}  // namespace shardsim
