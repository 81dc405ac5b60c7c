#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/nccl/nccl_fixture.hpp"

namespace shardsim {
namespace {

class Diary final : public CallWatch {
 public:
  void posted(const Call& call) override { note("posted", call); }
  void started(const Call& call) override { note("started", call); }
  void ended(const Call& call) override { note("ended", call); }
  void poll() override {
    ++num_polls;
    if (gives_up && num_polls > 5) {
      throw Error(ExitCode::backend_failed, "E9999", "another rank has failed");
    }
  }

  std::vector<std::string> lines;
  std::vector<Half> halves;
  std::vector<int> members;
  int num_polls = 0;
  bool gives_up = false;

 private:
  void note(const std::string& what, const Call& call) {
    lines.push_back(what + " " + call.group + "#" + std::to_string(call.instance) + "/" +
                    std::to_string(call.sequence) + " " + call.record.name);
    halves.assign(call.halves.begin(), call.halves.end());
    members.assign(call.members.begin(), call.members.end());
  }
};

}  // namespace

TEST_CASE("NCCL: the watch is told of every call, when it is posted, launched and over") {
  std::vector<Diary> diaries(2);
  run_nccl_ranks(2,
                 [](Runtime& runtime, Communicator& world) {
                   const auto first = world.split(0, 1 - world.rank(), "part");
                   const auto second = world.split(0, 1 - world.rank(), "part");
                   const Tensor a = runtime.allocate(MemoryCategory::comm, {3}, DType::bf16);
                   second->all_reduce(a, ReduceOp::sum).wait();
                   if (world.rank() == 0) world.send(a, 1).wait();
                   if (world.rank() == 1) world.recv(a, 0).wait();
                 },
                 {.watch = [&](int rank) { return &diaries[static_cast<std::size_t>(rank)]; }});
  CHECK(diaries[0].lines ==
        std::vector<std::string>{"posted world#0/0 split", "started world#0/0 split",
                                 "ended world#0/0 split", "posted world#0/1 split",
                                 "started world#0/1 split", "ended world#0/1 split",
                                 "posted part#1/0 all_reduce", "started part#1/0 all_reduce",
                                 "ended part#1/0 all_reduce", "posted world#0/2 send",
                                 "started world#0/2 send", "ended world#0/2 send"});
  REQUIRE(diaries[1].halves.size() == 1);
  CHECK_FALSE(diaries[1].halves[0].sends);
  CHECK(diaries[1].halves[0].peer == 0);
  CHECK(diaries[1].halves[0].count == 3);
  CHECK(diaries[1].halves[0].dtype == DType::bf16);
  CHECK(diaries[1].members == std::vector<int>{0, 1});
  CHECK(diaries[0].num_polls > 0);
}

TEST_CASE("NCCL: a run that is given up elsewhere ends here, and its communicators are aborted") {
  Diary diary;
  diary.gives_up = true;
  CHECK_THROWS_WITH(
      run_nccl_ranks(2,
                     [](Runtime& runtime, Communicator& world) {
                       const Tensor a = runtime.allocate(MemoryCategory::comm, {3}, DType::fp32);
                       if (world.rank() == 0) world.recv(a, 1).wait();
                     },
                     {.watch = [&](int rank) { return rank == 0 ? &diary : nullptr; }}),
      "another rank has failed");
  CHECK(stand_in::calls().back().find("ncclCommAbort") != std::string::npos);
  CHECK(stand_in::violations().empty());
}

}  // namespace shardsim
