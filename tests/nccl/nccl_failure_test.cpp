#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/nccl/nccl_fixture.hpp"

// Scripted failures: the verdict, and the abort of every communicator.
namespace shardsim {
namespace {

struct Verdict {
  std::string code = "none";
  ExitCode exit_code = ExitCode::ok;
  std::string message;
  std::optional<Diagnosis> diagnosis;
};

Verdict verdict_of(int ranks, const FiberWorld::RankBody& body, const NcclCase& test = {}) {
  Verdict verdict;
  try {
    run_nccl_ranks(ranks, body, test);
  } catch (const CommunicationError& error) {
    verdict.diagnosis = error.diagnosis();
    verdict.code = error.diagnosis().code;
    verdict.exit_code = error.exit_code();
  } catch (const Error& error) {
    verdict.code = error.code();
    verdict.exit_code = error.exit_code();
    verdict.message = error.what();
  }
  return verdict;
}

std::int64_t count_calls(const std::string& name) {
  const std::vector<std::string>& calls = stand_in::calls();
  return std::count_if(calls.begin(), calls.end(), [&](const std::string& call) {
    return call.find(name) != std::string::npos;
  });
}

// Two communicators per rank, and a few calls on both.
void two_groups(Runtime& runtime, Communicator& world) {
  const auto other = world.split(0, 0, "other");
  const Tensor a = runtime.allocate(MemoryCategory::comm, {8}, DType::fp32);
  const Tensor b = runtime.allocate(MemoryCategory::comm, {8}, DType::fp32);
  for (int i = 0; i < 3; ++i) {
    Work first = world.all_reduce(a, ReduceOp::sum, {.label = "gradients"});
    Work second = other->all_reduce(b, ReduceOp::sum);
    first.wait();
    second.wait();
  }
}

NcclCase scripted(const std::function<void(stand_in::Script&)>& change) {
  return {.prepare = [change] { change(stand_in::script()); }, .all_fail = true};
}

}  // namespace

TEST_CASE("NCCL: an asynchronous error ends the run, and all communicators are aborted") {
  const Verdict verdict =
      verdict_of(2, two_groups, scripted([](auto& script) { script.kernels_before_error = 6; }));
  CHECK(verdict.code == "E1036");
  CHECK(verdict.exit_code == ExitCode::backend_failed);
  CHECK_THAT(verdict.message, Catch::Contains("remote process exited"));
  CHECK(count_calls("ncclCommAbort") == 4);
  CHECK(stand_in::violations().empty());
}

TEST_CASE("NCCL: a kernel that never ends is a TIMEOUT, and all communicators are aborted") {
  const Verdict verdict =
      verdict_of(3, two_groups, scripted([](auto& script) { script.kernels_before_hang = 7; }));
  REQUIRE(verdict.diagnosis);
  CHECK(verdict.code == "TIMEOUT");
  CHECK(verdict.exit_code == ExitCode::communication);
  CHECK(verdict.diagnosis->members == std::vector<int>{0, 1, 2});
  CHECK_THAT(verdict.diagnosis->to_text(), Catch::Contains("waits in all_reduce sum fp32 x 8"));
  CHECK(count_calls("ncclCommAbort") == 6);
  CHECK(stand_in::violations().empty());
}

TEST_CASE("NCCL: ranks that send to each other first hang, and the silent one is named") {
  const Verdict verdict = verdict_of(
      2,
      [](Runtime& runtime, Communicator& world) {
        const Tensor a = runtime.allocate(MemoryCategory::comm, {2}, DType::fp32);
        const Tensor b = runtime.allocate(MemoryCategory::comm, {2}, DType::fp32);
        world.send(a, 1 - world.rank()).wait();
        world.recv(b, 1 - world.rank()).wait();
      },
      scripted([](auto&) {}));
  REQUIRE(verdict.code == "TIMEOUT");
  REQUIRE(verdict.diagnosis->sides.size() == 2);
  const std::vector<int> self = verdict.diagnosis->sides[0].ranks;
  CHECK(verdict.diagnosis->sides[1].ranks == std::vector<int>{1 - self[0]});
  CHECK(verdict.diagnosis->sides[1].action == "did not answer it");
}

TEST_CASE("NCCL: counts that differ are not noticed by NCCL, and end at the deadline") {
  const Verdict verdict = verdict_of(2, [](Runtime& runtime, Communicator& world) {
    world.barrier().wait();
    const Tensor a = runtime.allocate(MemoryCategory::comm, {world.rank() + 2}, DType::fp32);
    world.all_reduce(a, ReduceOp::sum).wait();
  });
  REQUIRE(verdict.code == "TIMEOUT");
  CHECK(verdict.diagnosis->sequence == 1);
  CHECK(verdict.diagnosis->last_matched == "barrier");
}

TEST_CASE("NCCL: the world's communicator is not formed: an error code, a rank that is missing") {
  const auto nothing = [](Runtime&, Communicator&) {};
  const Verdict refused = verdict_of(
      2, nothing, scripted([](auto& script) { script.init_status = NcclStatus::system_error; }));
  CHECK(refused.code == "E1036");
  CHECK_THAT(refused.message, Catch::Contains("ncclCommInitRankConfig on \"world\" failed"));
  const Verdict missing =
      verdict_of(3, nothing, scripted([](auto& script) { script.missing_rank = 1; }));
  CHECK(missing.code == "E1037");
  CHECK(missing.exit_code == ExitCode::backend_failed);
  CHECK(count_calls("ncclCommAbort") == 3);
  CHECK(stand_in::violations().empty());
}

TEST_CASE("NCCL: a group is not formed when a rank does not split") {
  const Verdict verdict = verdict_of(
      2,
      [](Runtime&, Communicator& world) {
        stand_in::script().missing_rank = 0;
        const auto part = world.split(0, 0, "part");
      },
      scripted([](auto&) {}));
  CHECK(verdict.code == "E1037");
  CHECK_THAT(verdict.message, Catch::Contains("\"world\" was not split"));
  CHECK(stand_in::violations().empty());
}

TEST_CASE("NCCL: a call of the CUDA runtime that fails is named") {
  for (const std::string name :
       {"cudaMalloc", "cudaSetDevice", "cudaMemcpyAsync", "cudaEventRecord", "cudaEventQuery",
        "cudaStreamWaitEvent", "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags"}) {
    const Verdict verdict = verdict_of(
        2, two_groups, scripted([&](auto& script) { script.failing_cuda_function = name; }));
    CHECK(verdict.code == "E1035");
    CHECK_THAT(verdict.message, Catch::Contains(name));
    CHECK_THAT(verdict.message, Catch::Contains("cudaErrorUnknown"));
  }
}

TEST_CASE(
    "NCCL: a call that is refused in a group is named, and the group is closed before aborts") {
  const Verdict verdict = verdict_of(
      2,
      [](Runtime& runtime, Communicator& world) {
        const Tensor full = runtime.allocate(MemoryCategory::comm, {3}, DType::fp32);
        const std::vector<std::int64_t> counts = {1, 2};
        world.all_gather(full, full.view(world.rank(), {world.rank() + 1}), {.counts = counts})
            .wait();
      },
      scripted([](auto& script) { script.failing_nccl_function = "ncclBroadcast"; }));
  CHECK(verdict.code == "E1036");
  CHECK_THAT(verdict.message, Catch::Contains("ncclBroadcast on \"world\" failed"));
  CHECK(stand_in::violations().empty());
}

TEST_CASE("NCCL: what rank 0 gives as the id is no id") {
  stand_in::reset();
  NcclOptions options;
  options.rank = 1;
  options.num_ranks = 2;
  options.get = [](const std::string&) { return std::string(255, 'a') + "g"; };
  const auto cuda = std::make_shared<CudaLibrary>(stand_in::path());
  const auto nccl = std::make_shared<NcclLibrary>(stand_in::path());
  CHECK_THROWS_WITH(NcclBackend(cuda, nccl, options), Catch::Contains("invalid NCCL id"));
  options.get = [](const std::string&) { return std::string("0123"); };
  CHECK_THROWS_WITH(NcclBackend(cuda, nccl, options), Catch::Contains("4 of 256 characters"));
}

TEST_CASE("NCCL: a handle that is dropped is reported, at the latest in the end") {
  const auto drop = [](Runtime& runtime, Communicator& world) {
    const Tensor a = runtime.allocate(MemoryCategory::comm, {2}, DType::fp32);
    static_cast<void>(world.all_reduce(a, ReduceOp::sum));
  };
  const Verdict verdict = verdict_of(2, drop);
  REQUIRE(verdict.code == "REQ_LEAK");
  CHECK_THAT(verdict.diagnosis->summary, Catch::Contains("dropped the handle of all_reduce"));
}

TEST_CASE("NCCL: what is wrong on the calling rank alone is refused before NCCL sees it") {
  const auto refused = [](const std::function<Work(Communicator&, const Tensor&)>& call) {
    return verdict_of(
               2,
               [&](Runtime& runtime, Communicator& world) {
                 call(world, runtime.allocate(MemoryCategory::comm, {3}, DType::fp32)).wait();
               })
        .code;
  };
  CHECK(refused([](Communicator& world, const Tensor& t) { return world.broadcast(t, 2); }) ==
        "ARG_RANGE");
  CHECK(refused([](Communicator& world, const Tensor& t) { return world.send(t, -1); }) ==
        "ARG_RANGE");
  CHECK(refused([](Communicator& world, const Tensor& t) { return world.all_gather(t, t); }) ==
        "ARG_RANGE");
  CHECK(refused([](Communicator& world, const Tensor& t) {
          return world.all_to_all(t, t, {}, {});
        }) == "ARG_RANGE");
  CHECK(refused([](Communicator& world, const Tensor& t) {
          return world.all_reduce(t, ReduceOp::sum, {.padding = 4});
        }) == "ARG_RANGE");
  CHECK(count_calls("ncclAll") == 0);
}

}  // namespace shardsim
