#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// Programs that hang or corrupt data on a real cluster: each must end at once, named and located.
namespace shardsim {
namespace {

using Body = FiberWorld::RankBody;

Tensor tensor_of(Runtime& runtime, std::int64_t count, DType dtype = DType::fp32) {
  return runtime.allocate(MemoryCategory::comm, {count}, dtype);
}

const DiagnosisSide& culprit(const Diagnosis& diagnosis) { return diagnosis.sides.at(0); }

bool here(const CallSite& site) {
  return std::string(site.file) == "tests/backends/diagnosis_test.cpp" && site.line > 0;
}

// 5 ranks reduce; rank 3 makes a call that differs in one way.
Diagnosis odd_one_out(const std::function<Work(Runtime&, Communicator&)>& odd) {
  return diagnosis_of(5, [&](Runtime& runtime, Communicator& world) {
    const Tensor buffer = tensor_of(runtime, 10);
    if (world.rank() == 3) {
      odd(runtime, world).wait();
    } else {
      world.all_reduce(buffer, ReduceOp::sum, {.label = "A"}).wait();
    }
  });
}

}  // namespace

TEST_CASE(
    "P8, P9: one member whose call differs is the culprit, with both calls and their places") {
  const auto reduce = [](std::int64_t count, DType dtype, ReduceOp op, const char* label) {
    return [=](Runtime& runtime, Communicator& world) {
      return world.all_reduce(tensor_of(runtime, count, dtype), op, {.label = label});
    };
  };
  const std::pair<const char*, Diagnosis> cases[] = {
      {"COLL_COUNT", odd_one_out(reduce(9, DType::fp32, ReduceOp::sum, "A"))},
      {"COLL_DTYPE", odd_one_out(reduce(20, DType::bf16, ReduceOp::sum, "A"))},
      {"COLL_REDOP", odd_one_out(reduce(10, DType::fp32, ReduceOp::max, "A"))},
      {"COLL_LABEL", odd_one_out(reduce(10, DType::fp32, ReduceOp::sum, "B"))},
      {"COLL_ORDER", odd_one_out([](Runtime& runtime, Communicator& world) {
         return world.broadcast(tensor_of(runtime, 10), 0, {.label = "A"});
       })},
  };
  for (const auto& [code, diagnosis] : cases) {
    CHECK(diagnosis.code == code);
    CHECK(culprit(diagnosis).ranks == std::vector<int>{3});
    CHECK(here(culprit(diagnosis).site));
    REQUIRE(diagnosis.sides.size() == 2);
    CHECK(diagnosis.sides[1].ranks == std::vector<int>{0, 1, 2, 4});
    CHECK(here(diagnosis.sides[1].site));
    CHECK(diagnosis.group == "world");
    CHECK(diagnosis.sequence == 0);
    CHECK(!diagnosis.hint.empty());
  }
  CHECK(cases[0].second.sides[0].action == "all_reduce sum fp32 x 9 \"A\"");
  CHECK(cases[0].second.sides[1].action == "all_reduce sum fp32 x 10 \"A\"");
}

TEST_CASE("P9: different roots are reported") {
  const Diagnosis diagnosis = diagnosis_of(3, [](Runtime& runtime, Communicator& world) {
    world.broadcast(tensor_of(runtime, 4), world.rank() == 1 ? 1 : 0).wait();
  });
  CHECK(diagnosis.code == "COLL_ROOT");
  CHECK(culprit(diagnosis).ranks == std::vector<int>{1});
}

TEST_CASE("P8: two ranks that swap two collectives are named, after the last matching one") {
  const Diagnosis diagnosis = diagnosis_of(4, [](Runtime& runtime, Communicator& world) {
    const Tensor a = tensor_of(runtime, 4);
    const Tensor b = tensor_of(runtime, 16);
    world.barrier().wait();
    const bool swapped = world.rank() == 1 || world.rank() == 2;
    const auto reduce = [&] { world.all_reduce(a, ReduceOp::sum).wait(); };
    const auto gather = [&] { world.all_gather(b, a).wait(); };
    if (!swapped) reduce();
    gather();
    if (swapped) reduce();
  });
  CHECK(diagnosis.code == "COLL_ORDER");
  CHECK(diagnosis.sequence == 1);
  REQUIRE(diagnosis.sides.size() == 2);
  CHECK(diagnosis.sides[0].ranks == std::vector<int>{0, 3});
  CHECK(diagnosis.sides[1].ranks == std::vector<int>{1, 2});
  CHECK(diagnosis.last_matched == "#0 barrier");
}

TEST_CASE("P10, P11: a rank that skips a collective and returns is missed by the others") {
  const Diagnosis diagnosis = diagnosis_of(4, [](Runtime& runtime, Communicator& world) {
    if (world.rank() == 2) return;
    world.all_reduce(tensor_of(runtime, 8), ReduceOp::sum).wait();
  });
  CHECK(diagnosis.code == "COLL_MISSING");
  CHECK(culprit(diagnosis).ranks == std::vector<int>{2});
  CHECK(culprit(diagnosis).action == "missing: has finished");
  CHECK(diagnosis.sides.at(1).ranks == std::vector<int>{0, 1, 3});
  CHECK(here(diagnosis.sides.at(1).site));
}

TEST_CASE("P13: an extra call that pairs with the next one is seen by its label") {
  const Diagnosis diagnosis = diagnosis_of(4, [](Runtime& runtime, Communicator& world) {
    const Tensor buffer = tensor_of(runtime, 8);
    if (world.rank() == 3) world.all_reduce(buffer, ReduceOp::sum, {.label = "A"}).wait();
    world.all_reduce(buffer, ReduceOp::sum, {.label = "A"}).wait();
    world.all_reduce(buffer, ReduceOp::sum, {.label = "B"}).wait();
  });
  CHECK(diagnosis.code == "COLL_LABEL");
  CHECK(culprit(diagnosis).ranks == std::vector<int>{3});
}

TEST_CASE("P12: a send-send cycle deadlocks with rendezvous, and runs with buffered sends") {
  const Body both_send_first = [](Runtime& runtime, Communicator& world) {
    const Tensor buffer = tensor_of(runtime, 8);
    world.send(buffer, 1 - world.rank()).wait();
    world.recv(buffer, 1 - world.rank()).wait();
  };
  const Diagnosis diagnosis = diagnosis_of(2, both_send_first);
  CHECK(diagnosis.code == "DEADLOCK");
  REQUIRE(diagnosis.cycle.size() == 2);
  CHECK(diagnosis.cycle[0].find("rank 0 waits in send fp32 x 8 to 1") == 0);
  CHECK(here(culprit(diagnosis).site));
  CHECK(diagnosis_of(2, both_send_first, {.buffered_sends = true}).code == "NONE");
}

TEST_CASE("P12: a receive-receive cycle is printed in either mode of sending") {
  for (const bool buffered : {false, true}) {
    const Diagnosis diagnosis = diagnosis_of(3,
                                             [](Runtime& runtime, Communicator& world) {
                                               const Tensor buffer = tensor_of(runtime, 8);
                                               world.recv(buffer, (world.rank() + 2) % 3).wait();
                                               world.send(buffer, (world.rank() + 1) % 3).wait();
                                             },
                                             {.buffered_sends = buffered});
    CHECK(diagnosis.code == "DEADLOCK");
    CHECK(diagnosis.group == "world");
    REQUIRE(diagnosis.cycle.size() == 3);
    CHECK(diagnosis.cycle[0].find("rank 0 waits in recv fp32 x 8 from 2") == 0);
    CHECK(diagnosis.cycle[0].find("for rank 2 to call its part") != std::string::npos);
    CHECK(here(culprit(diagnosis).site));
  }
}

TEST_CASE("P12: posting both without waiting does not help outside a batch: one stream per group") {
  const Diagnosis diagnosis = diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
    const Tensor out = tensor_of(runtime, 8);
    const Tensor in = tensor_of(runtime, 8);
    Work send = world.send(out, 1 - world.rank());
    Work recv = world.recv(in, 1 - world.rank());
    send.wait();
    recv.wait();
  });
  CHECK(diagnosis.code == "DEADLOCK");
  CHECK(diagnosis.cycle.size() == 2);
}

TEST_CASE("P12: a ring of blocking sends names every link of the circle") {
  const Diagnosis diagnosis = diagnosis_of(5, [](Runtime& runtime, Communicator& world) {
    const Tensor buffer = tensor_of(runtime, 8);
    world.send(buffer, (world.rank() + 1) % 5).wait();
    world.recv(buffer, (world.rank() + 4) % 5).wait();
  });
  CHECK(diagnosis.code == "DEADLOCK");
  CHECK(diagnosis.cycle.size() == 5);
}

TEST_CASE("two groups used in different orders deadlock across each other") {
  // 2 x 2 mesh: row 0 uses its row first, row 1 its columns first.
  const Diagnosis diagnosis = diagnosis_of(4, [](Runtime& runtime, Communicator& world) {
    const auto row = world.split(world.rank() / 2, world.rank(), "row");
    const auto column = world.split(world.rank() % 2, world.rank(), "column");
    const Tensor buffer = tensor_of(runtime, 4);
    const bool row_first = world.rank() == 0 || world.rank() == 3;
    Communicator& first = row_first ? *row : *column;
    Communicator& second = row_first ? *column : *row;
    first.all_reduce(buffer, ReduceOp::sum).wait();
    second.all_reduce(buffer, ReduceOp::sum).wait();
  });
  CHECK(diagnosis.code == "DEADLOCK");
  CHECK(diagnosis.cycle.size() == 4);
}

TEST_CASE("P7: groups that one rank makes in another order are reported, with both calls") {
  const Diagnosis diagnosis = diagnosis_of(4, [](Runtime&, Communicator& world) {
    const auto row = [&] { return world.split(world.rank() / 2, world.rank(), "row"); };
    const auto column = [&] { return world.split(world.rank() % 2, world.rank(), "column"); };
    if (world.rank() == 2) {
      (void)column();
      (void)row();
    } else {
      (void)row();
      (void)column();
    }
  });
  CHECK(diagnosis.code == "GROUP_CREATE");
  CHECK(diagnosis.group == "world");
  CHECK(diagnosis.sequence == 0);
  REQUIRE(diagnosis.sides.size() == 2);
  CHECK(culprit(diagnosis).ranks == std::vector<int>{2});
  CHECK(culprit(diagnosis).action.find("\"column\"") != std::string::npos);
  CHECK(diagnosis.sides[1].ranks == std::vector<int>{0, 1, 3});
  CHECK(diagnosis.sides[1].action.find("\"row\"") != std::string::npos);
  CHECK(here(culprit(diagnosis).site));
  CHECK(here(diagnosis.sides[1].site));
  CHECK(culprit(diagnosis).site.line == diagnosis.sides[1].site.line + 1);
}

TEST_CASE("P9, P10: a receive that nobody sends to, and sizes that differ between two ranks") {
  const Diagnosis lonely = diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
    if (world.rank() == 1) world.recv(tensor_of(runtime, 3), 0).wait();
  });
  CHECK(lonely.code == "P2P_UNMATCHED");
  CHECK(culprit(lonely).ranks == std::vector<int>{0});
  const Diagnosis truncated = diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
    if (world.rank() == 0) world.send(tensor_of(runtime, 4), 1).wait();
    if (world.rank() == 1) world.recv(tensor_of(runtime, 3), 0).wait();
  });
  CHECK(truncated.code == "P2P_TRUNC");
  CHECK(truncated.sides.at(0).action == "send fp32 x 4 to 1");
  CHECK(truncated.sides.at(1).action == "recv fp32 x 3 from 0");
}

TEST_CASE("P9: all_to_all splits that disagree are reported by their cell") {
  const Diagnosis diagnosis = diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
    const std::int64_t send[] = {0, world.rank() == 0 ? 5 : 0};
    const std::int64_t recv[] = {world.rank() == 1 ? 4 : 0, 0};
    const Tensor out = tensor_of(runtime, send[0] + send[1]);
    const Tensor in = tensor_of(runtime, recv[0] + recv[1]);
    world.all_to_all(in, out, send, recv).wait();
  });
  CHECK(diagnosis.code == "A2A_SPLIT");
  CHECK(diagnosis.summary.find("member 0 sends 5 elements to member 1, which expects 4") !=
        std::string::npos);
}

TEST_CASE("bad roots, peers and sizes are refused on the rank that gives them") {
  const Body bad[] = {
      [](Runtime& runtime, Communicator& world) {
        world.broadcast(tensor_of(runtime, 1), 2).wait();
      },
      [](Runtime& runtime, Communicator& world) { world.send(tensor_of(runtime, 1), -1).wait(); },
      [](Runtime& runtime, Communicator& world) {
        world.all_gather(tensor_of(runtime, 5), tensor_of(runtime, 2)).wait();
      },
      [](Runtime& runtime, Communicator& world) {
        world
            .reduce_scatter(tensor_of(runtime, 1, DType::bf16), tensor_of(runtime, 2),
                            ReduceOp::sum)
            .wait();
      },
  };
  for (const Body& body : bad) {
    const Diagnosis diagnosis = diagnosis_of(2, body);
    CHECK(diagnosis.code == "ARG_RANGE");
    CHECK(culprit(diagnosis).ranks == std::vector<int>{0});
    CHECK(here(culprit(diagnosis).site));
  }
}

TEST_CASE("P14: a dropped handle is a leak, reported with its place") {
  const Diagnosis diagnosis = diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
    const Tensor buffer = tensor_of(runtime, 1);
    { const Work dropped = world.all_reduce(buffer, ReduceOp::sum); }
    world.barrier().wait();
  });
  CHECK(diagnosis.code == "REQ_LEAK");
  CHECK(here(culprit(diagnosis).site));
}

TEST_CASE("legal programs stay silent") {
  const Body legal[] = {
      // The same collective from different lines on different ranks.
      [](Runtime& runtime, Communicator& world) {
        const Tensor buffer = tensor_of(runtime, 4);
        const CallSite first_line = CallSite::here();
        const CallSite second_line = CallSite::here();
        const CallSite site = world.rank() == 0 ? first_line : second_line;
        world.all_reduce(buffer, ReduceOp::sum, {}, site).wait();
      },
      // Waits out of order.
      [](Runtime& runtime, Communicator& world) {
        const Tensor a = tensor_of(runtime, 4);
        const Tensor b = tensor_of(runtime, 4);
        Work first = world.all_reduce(a, ReduceOp::sum);
        Work second = world.all_reduce(b, ReduceOp::sum);
        second.wait();
        first.wait();
      },
      // Zero sizes and a group of one.
      [](Runtime& runtime, Communicator& world) {
        const auto alone = world.split(world.rank(), 0, "alone");
        const Tensor nothing = tensor_of(runtime, 0);
        alone->all_reduce(nothing, ReduceOp::sum).wait();
        world.all_reduce(nothing, ReduceOp::sum).wait();
        alone->all_gather(nothing, nothing).wait();
      },
      // A slow rank is not a deadlock.
      [](Runtime& runtime, Communicator& world) {
        if (world.rank() == 0) {
          for (int i = 0; i < 1000; ++i) {
            runtime.compute({"slow", ComputeKind::memory_bound, DType::fp32, 0, 1 << 30}, [] {});
          }
        }
        world.barrier().wait();
      },
  };
  for (const Body& body : legal) CHECK(diagnosis_of(4, body).summary == "the run ended well");
}

TEST_CASE("a deadlock of 1,024 ranks is explained in at most 40 lines") {
  const Diagnosis diagnosis =
      diagnosis_of(1024,
                   [](Runtime& runtime, Communicator& world) {
                     if (world.rank() % 3 == 1) return;
                     world.all_reduce(tensor_of(runtime, 8), ReduceOp::sum).wait();
                   },
                   {.has_data = false});
  const std::string text = diagnosis.to_text();
  CHECK(std::count(text.begin(), text.end(), '\n') <= 40);
  CHECK(text.size() < 4000);
}

TEST_CASE("P11: one rank that throws is the report; its peers are released") {
  try {
    run_ranks(4, [](Runtime& runtime, Communicator& world) {
      if (world.rank() == 1) throw UsageError("E9999", "planted");
      world.all_reduce(tensor_of(runtime, 1), ReduceOp::sum).wait();
    });
    FAIL("the run must throw");
  } catch (const RankFailed& failure) {
    CHECK(failure.rank() == 1);
  }
}

TEST_CASE("P11: a rank that throws or returns inside a collective is the cause; all are released") {
  // Inside: it has posted its part and never waits. The others wait for the next one.
  struct OnUnwind {
    int& count;
    ~OnUnwind() { ++count; }
  };
  const auto body = [](int& released, bool throws) {
    return [&released, throws](Runtime& runtime, Communicator& world) {
      const OnUnwind guard{released};
      const Tensor buffer = tensor_of(runtime, 8);
      Work work = world.all_reduce(buffer, ReduceOp::sum);
      if (world.rank() == 1 && throws) throw UsageError("E9999", "planted");
      if (world.rank() == 1) return;
      work.wait();
      world.barrier().wait();
    };
  };
  int released = 0;
  try {
    run_ranks(4, body(released, true));
    FAIL("the run must throw");
  } catch (const RankFailed& failure) {
    CHECK(failure.rank() == 1);
    CHECK(failure.code() == "E9999");
  }
  CHECK(released == 4);
  const Diagnosis diagnosis = diagnosis_of(4, body(released, false));
  CHECK(diagnosis.code == "REQ_LEAK");
  CHECK(culprit(diagnosis).ranks == std::vector<int>{1});
  CHECK(here(culprit(diagnosis).site));
  CHECK(released == 8);
}

}  // namespace shardsim
