#include "sim/harness/logged_run.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "backends/fiber/fiber_world.hpp"

#include "sim/harness/call_log.hpp"
#include "sim/harness/program_run.hpp"
#include "sim/harness/shown_figures.hpp"

// Logs of what ranks have done say the same as the ranks' own run.
namespace shardsim {
namespace {

using LoggedBody = std::function<void(Runtime&, CallLog&)>;

// Runs in memory through logs, as processes do; what the ranks' own run says is not asked for.
std::vector<RankLog> logs_of(int ranks, const LoggedBody& body) {
  std::vector<RankLog> logs(static_cast<std::size_t>(ranks));
  std::vector<std::shared_ptr<CallLog>> kept;
  FiberWorld world({.cluster = check_cluster(ranks)});
  try {
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const int rank = everyone.rank();
      const auto messages = everyone.tagged_messages();
      // Its own communicator of all, since the log owns what it logs.
      const auto log =
          std::make_shared<CallLog>(everyone.split(0, rank, "world"), *messages, [] {});
      kept.push_back(log);
      log->open();
      const auto keep = [&](bool ended) {
        logs[static_cast<std::size_t>(rank)] = rank_log_of(log->take_steps(), ended);
      };
      try {
        body(runtime, *log);
        log->end();
        keep(true);
      } catch (const CommunicationError& error) {
        if (!log->is_stuck()) log->refused(error.diagnosis());
        keep(!log->is_stuck());
        throw;
      } catch (...) {
        keep(false);  // Another rank has failed.
        throw;
      }
      log->close_all();
    });
  } catch (const Error&) {
    // The logs are asked.
  }
  return logs;
}

Tensor some(Runtime& runtime, std::int64_t count = 4) {
  return runtime.allocate(MemoryCategory::comm, {count}, DType::fp32);
}

std::string code_of_logs(const std::vector<RankLog>& logs) {
  const LoggedRun run = run_logged(logs);
  if (run.goes_on) return "goes on";
  return run.failure ? run.failure->code : "none";
}

}  // namespace

TEST_CASE("the log of a right run ends well: all kinds of calls, groups and messages") {
  const auto logs = logs_of(4, [](Runtime& runtime, CallLog& log) {
    Communicator& world = log.world();
    const int rank = world.rank();
    const auto pair = world.split(rank / 2, rank, "pair");
    const auto nobody = pair->split(kNoColor, 0, "nobody");
    const Tensor one = some(runtime);
    const Tensor all = some(runtime, 16);
    Work reduce = world.all_reduce(one, ReduceOp::sum, {.label = "gradients"});
    Work gather = pair->all_gather(some(runtime, 8), some(runtime), {.after = &reduce});
    gather.wait();
    reduce.wait();
    const std::int64_t counts[] = {1, 2, 3, 4};
    world.all_gather(some(runtime, 10), some(runtime, rank + 1), {.counts = counts}).wait();
    world.all_to_all(all, some(runtime, 16), {}, {}).wait();
    world.broadcast(one, 2).wait();
    const P2pOp both[] = {{P2pOp::Kind::send, one, (rank + 1) % 4},
                          {P2pOp::Kind::recv, some(runtime), (rank + 3) % 4}};
    world.batch(both).wait();
    MessageStatus status;
    Work send = log.messages().send(one, (rank + 1) % 4, rank);
    log.messages().recv(some(runtime, 9), kAnySource, kAnyTag, &status).wait();
    CHECK(status.source == (rank + 3) % 4);
    CHECK(status.tag == status.source);
    CHECK(status.count == 4);
    send.wait();
    Work works[] = {world.barrier()};
    CHECK(wait_any(works) == 0U);
  });
  CHECK(code_of_logs(logs) == "none");
  // 2 splits, 7 calls and 2 messages with their waits, what was taken, `any`, and a close.
  CHECK(logs[0].steps.size() == 2 + 2 * (7 + 2) + 1 + 1 + 1);
}

TEST_CASE("a log says where a rank probes in vain, and needs no probe that has found a message") {
  const auto found = logs_of(2, [](Runtime& runtime, CallLog& log) {
    if (log.world().rank() == 1) return log.messages().send(some(runtime), 0, 5).wait();
    CHECK(log.messages().probe(kAnySource, kAnyTag, DType::fp32).count == 4);
    CHECK(log.messages().try_probe(1, 5, DType::fp32)->source == 1);
    log.messages().recv(some(runtime), 1, 5).wait();
  });
  CHECK(code_of_logs(found) == "none");
  const auto in_vain = logs_of(2, [](Runtime& runtime, CallLog& log) {
    if (log.world().rank() == 1) return log.messages().send(some(runtime), 0, 5).wait();
    static_cast<void>(log.messages().probe(1, 6, DType::fp32));
  });
  const LoggedRun run = run_logged(in_vain);
  REQUIRE(run.failure);
  CHECK(run.failure->code == "P2P_TAG");
  CHECK(run.failure->to_text().find("probe from 1 with tag 6") != std::string::npos);
}

TEST_CASE("the log of a wrong run says what is wrong, with ranks and places") {
  const auto missing = logs_of(3, [](Runtime& runtime, CallLog& log) {
    if (log.world().rank() == 1) return;
    log.world().all_reduce(some(runtime), ReduceOp::sum).wait();
  });
  const LoggedRun run = run_logged(missing);
  REQUIRE(run.failure);
  CHECK(run.failure->code == "COLL_MISSING");
  CHECK(run.failure->sides.at(0).ranks == std::vector<int>{1});
  CHECK(std::string(run.failure->sides.at(1).site.file).ends_with("logged_run_test.cpp"));

  CHECK(code_of_logs(logs_of(2, [](Runtime& runtime, CallLog& log) {
          const Tensor buffer = some(runtime);
          Work work = log.messages().send(buffer, 1 - log.world().rank(), 3);
          if (log.world().rank() == 1) log.messages().recv(buffer, 0, 4).wait();
          work.wait();
        })) == "P2P_TAG");
  CHECK(code_of_logs(logs_of(2, [](Runtime& runtime, CallLog& log) {
          log.messages().send(some(runtime), 1 - log.world().rank(), -5).wait();
        })) == "ARG_RANGE");
  CHECK(code_of_logs(logs_of(2, [](Runtime&, CallLog& log) {
          auto group = log.world().split(0, log.world().rank(), "group");
          Work work = group->barrier();
          group.reset();
          work.wait();
        })) == "GROUP_DEAD");
  CHECK(code_of_logs(logs_of(2, [](Runtime&, CallLog& log) {
          { const Work dropped = log.world().barrier(); }
          log.world().barrier().wait();
        })) == "REQ_LEAK");
}

TEST_CASE("a receive from any source takes in the log what it has taken in the run") {
  constexpr std::int64_t kLong = std::int64_t{1} << 30;
  const auto logs = logs_of(3, [](Runtime& runtime, CallLog& log) {
    const int rank = log.world().rank();
    if (rank == 1) {
      runtime.compute({"slow", ComputeKind::memory_bound, DType::fp32, 0, kLong}, [] {});
    }
    if (rank > 0) return log.messages().send(some(runtime), 0, rank).wait();
    MessageStatus status;
    log.messages().recv(some(runtime), kAnySource, kAnyTag, &status).wait();
    CHECK(status.source == 2);
    log.messages().recv(some(runtime), 1, 1).wait();
  });
  // No rank is slow in a log.
  CHECK(code_of_logs(logs) == "none");
}

TEST_CASE("a rank that waits and would get on proves nothing") {
  const auto body = [](Runtime& runtime, CallLog& log) {
    log.world().all_reduce(some(runtime), ReduceOp::sum).wait();
    log.world().barrier().wait();
  };
  std::vector<RankLog> logs = logs_of(2, body);
  CHECK(code_of_logs(logs) == "none");
  // Both still wait for the reduction that they have made.
  for (RankLog& log : logs) {
    log.steps.resize(2);
    log.ended = false;
  }
  CHECK(code_of_logs(logs) == "goes on");
  // One of them has never made it, and has ended.
  logs[1].steps.clear();
  logs[1].ended = true;
  CHECK(code_of_logs(logs) == "COLL_MISSING");
}

TEST_CASE("steps and figures travel as text, and other texts are refused") {
  ShownFigures figures;
  figures.bytes_sent = -3;
  figures.peak_bytes = std::int64_t{1} << 62;
  figures.groups = {{"world", 2}, {"pair", 2}};
  figures.shown.add({.what = Shown::norm,
                     .name = "norm",
                     .step = 3,
                     .microbatch = 1,
                     .first = 2,
                     .whole = 5,
                     .values = {0.1, -1e300},
                     .site = CallSite::here()});
  figures.shown.add_share(0, 7);
  const ProgramRun run = run_of({to_text(figures), to_text(ShownFigures{})});
  CHECK(run.bytes_sent == std::vector<std::int64_t>{-3, 0});
  CHECK(run.peak_bytes.front() == figures.peak_bytes);
  CHECK(run.shown.groups() == figures.groups);
  CHECK(run.shown.shares() == figures.shown.shares());
  REQUIRE(run.shown.pieces().size() == 1);
  const ShownState::Piece& piece = run.shown.pieces().front();
  CHECK(piece.what == Shown::norm);
  CHECK(piece.name == "norm");
  CHECK((piece.step == 3 && piece.microbatch == 1 && piece.first == 2 && piece.whole == 5));
  CHECK(piece.values == std::vector<double>{0.1, -1e300});
  CHECK(piece.site.line == figures.shown.pieces().front().site.line);

  const std::string text = to_text(figures);
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    CHECK_THROWS_AS(run_of({text.substr(0, bytes)}), std::runtime_error);
  }
  CHECK_THROWS_AS(rank_log_of("\xff\xff\xff", true), std::runtime_error);
}

}  // namespace shardsim
