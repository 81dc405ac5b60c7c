#include <catch2/catch.hpp>

#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

TEST_CASE("what only exceeds a limit has an exit code of its own") {
  const auto exit_code = [](const std::vector<std::string>& flags) {
    try {
      loaded(valid_text(), flags);
    } catch (const ScenarioError& error) {
      return error.exit_code();
    }
    return ExitCode::ok;
  };
  CHECK(exit_code({"system.nodes=4096", "training.global_batch_size=16384"}) == ExitCode::ok);
  CHECK(exit_code({"system.nodes=4097", "execution.engine=run"}) == ExitCode::does_not_fit);
  CHECK(exit_code({"system.nodes=262145"}) == ExitCode::does_not_fit);
  CHECK(exit_code({"system.nodes=1000000000000"}) == ExitCode::does_not_fit);
  CHECK(exit_code({"system.nodes=4097", "parallelism.zero_stage=4"}) == ExitCode::bad_usage);
  CHECK(exit_code({"execution.tensors=real"}) == ExitCode::ok);
  CHECK(exit_code({"execution.tensors=real", "model.vocab_size=16000000"}) ==
        ExitCode::does_not_fit);
}

// So that what is valid is not refused by the run: make_schedule has the same limit.
TEST_CASE("a schedule has as many forwards as fit into memory, stages and chunks counted") {
  const auto with = [](std::int64_t batch, const std::vector<std::string>& parallelism) {
    std::vector<std::string> flags = {"model.num_layers=4",
                                      "training.global_batch_size=" + std::to_string(batch)};
    flags.insert(flags.end(), parallelism.begin(), parallelism.end());
    try {
      loaded(valid_text(), flags);
    } catch (const ScenarioError& error) {
      CHECK(error.exit_code() == ExitCode::does_not_fit);
      CHECK(error.problems().front().pointer == "/training/global_batch_size");
      CHECK_FALSE(error.fix().empty());
      return error.code();
    }
    return std::string("none");
  };
  // 2^24 forwards, and then one more microbatch, or one more round. 8 ranks share a batch.
  const std::int64_t most = std::int64_t{1} << 24;
  CHECK(with(8 * most, {}) == "none");
  CHECK(with(8 * (most + 1), {}) == "E0355");
  CHECK(with(4 * most / 2, {"parallelism.pp=2"}) == "none");
  CHECK(with(4 * (most / 2 + 1), {"parallelism.pp=2"}) == "E0355");
  CHECK(with(4 * most / 4, {"parallelism.pp=2", "parallelism.vpp=2"}) == "none");
  CHECK(with(4 * (most / 4 + 2), {"parallelism.pp=2", "parallelism.vpp=2"}) == "E0355");
}

TEST_CASE("where ranks may be replayed or folded, a plan may have 2^20 of them") {
  // Four GPUs per node.
  const auto with = [](int nodes, std::vector<std::string> overrides) {
    overrides.push_back("system.nodes=" + std::to_string(nodes));
    overrides.push_back("training.global_batch_size=" + std::to_string(4 * nodes));
    try {
      load_scenario_text(valid_text(), "test.json", overrides);
    } catch (const ScenarioError& error) {
      return error.code() + " " + error.problems().front().help;
    }
    return std::string("none");
  };
  const std::string off =
      "E0351 use fewer nodes, or a plan (execution.tensors meta) with execution.engine auto, which "
      "replays ranks that do the same";
  CHECK(with(1 << 18, {"execution.fold=auto"}) == "none");
  CHECK(with((1 << 18) + 1, {"execution.fold=auto"}) == "E0351 use fewer nodes");
  CHECK(with(4097, {"execution.engine=replay"}) == "none");
  CHECK(with(4096, {"execution.engine=run"}) == "none");
  CHECK(with(4097, {"execution.engine=run"}) == off);
  CHECK(with(4097, {"execution.fold=auto", "execution.tensors=real"}) == off);
  CHECK(with((1 << 18) + 1, {"execution.fold=off"}) == "E0351 use fewer nodes");
  const std::vector<std::string> compressed = {"execution.fold=auto", "parallelism.zero_stage=0",
                                               "parallelism.gradient_compression=int8"};
  CHECK(with(4097, compressed) == "E0351 use fewer nodes, or leave it out");
  CHECK(with(4096, compressed) == "none");
}

TEST_CASE("limits can be raised by the caller") {
  LoadLimits limits;
  limits.max_ranks = 20000;
  const Scenario s = load_scenario_text(
      valid_text(), "test.json", {"system.nodes=4097", "training.global_batch_size=16388"}, limits);
  CHECK(s.system.ranks == 16388);
  limits.max_host_memory_bytes = 1;
  CHECK_THROWS_AS(load_scenario_text(valid_text(), "test.json", {"execution.tensors=real"}, limits),
                  ScenarioError);
}

// By hand for valid_text() with AdamW. Parameters: 2 x 53 x 24 for the tables, 24 for the last
// norm, 2 layers of 2 x 24^2 + 2 x 24 x 12 + 3 x 24 x 40 + 2 x 24 = 4656; together 11880. State: 8
// ranks and a reference x 11880 x 5 copies x 8 bytes = 4276800. Activations per sequence: 9 x 2 x
// (12 x 24 + 4 x 40) + 2 x 2 x 4 x 81 + 3 x 9 x 53 = 10791 values, for 8 ranks x 1 and the
// reference's 16: 24 x 10791 x 8 bytes = 2071872.
TEST_CASE("the memory of real tensors is the sum that the error shows") {
  const auto fits = [](std::int64_t limit_bytes) {
    LoadLimits limits;
    limits.max_host_memory_bytes = limit_bytes;
    try {
      load_scenario_text(valid_text(), "test.json", {"execution.tensors=real"}, limits);
    } catch (const ScenarioError& error) {
      CHECK(error.code() == "E0352");
      return false;
    }
    return true;
  };
  CHECK(fits(4276800 + 2071872));
  CHECK_FALSE(fits(4276800 + 2071872 - 1));
}
