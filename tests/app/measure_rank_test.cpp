#include "sim/real/measure_rank.hpp"

#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"

#include "tests/backends/message_fixture.hpp"

// Reports of runs on real processes, over messages through memory. A right run passes every check,
// and each kind of mistake fails the check for it.
namespace shardsim {
namespace {

struct Run {
  Scenario scenario;
  std::vector<MeasuredRank> reports;
};

// Puts something between the strategies and the messages.
using Wrap = std::function<std::unique_ptr<Communicator>(Communicator& world)>;

Run run_processes(const std::string& name, const Wrap& wrap = {},
                  std::vector<std::string> settings = {}) {
  settings.insert(settings.begin(), "execution.steps=2");
  Run run{load_scenario("scenarios/verify-" + name + ".json", settings), {}};
  const Experiment experiment = compile(run.scenario);
  const int ranks = static_cast<int>(run.scenario.system.ranks);
  std::vector<RankFigures> measured(static_cast<std::size_t>(ranks));
  const RankSetting setting{&experiment, wrap, {}};
  run_message_processes(ranks,
                        [&](MessageRank& process) {
                          measured[static_cast<std::size_t>(process.rank())] =
                              train_for_real(setting, process);
                        },
                        {.cluster = experiment.cluster()});
  for (int rank = 0; rank < ranks; ++rank) {
    const MeasuredRank report =
        compare_rank(experiment.plan(), rank, measured[static_cast<std::size_t>(rank)],
                     simulate_rank(experiment, rank));
    run.reports.push_back(rank_report_of(to_text(report)));  // As they travel.
  }
  return run;
}

Result result_of(const Run& run, const MeasuredRun& measured) {
  Result result;
  add_measured(result, compile(run.scenario), measured, run.reports);
  return result;
}

bool passed(const Result& result, const std::string& name) {
  for (const Check& check : result.checks) {
    if (check.name == name) {
      INFO(name << ": " << check.detail);
      return check.passed;
    }
  }
  FAIL("there is no check " << name);
  return false;
}

std::int64_t figure(const Result& result, const std::string& name) {
  for (const Metric& metric : result.measured) {
    if (metric.name == name) return std::get<std::int64_t>(metric.value);
  }
  FAIL("there is no figure " << name);
  return 0;
}

const MeasuredRun kMpi{.backend = "mpi", .library = "memory", .loopback_bytes = {}};

}  // namespace

TEST_CASE("a real run that does what is simulated passes every check, and gives its figures") {
  for (const char* const name : {"gpt-tp2-pp2-dp2-zero1", "gpt-tp2-pp2-dp2-zero2-offload"}) {
    const Run run = run_processes(name);
    const Result result = result_of(run, kMpi);
    for (const char* const check : {"mpi.values", "mpi.replicas", "mpi.bytes", "mpi.memory"}) {
      CHECK(passed(result, check));
    }
    CHECK(figure(result, "values.compared") > 10000);
    CHECK(figure(result, "values.different_bits") == 0);
    CHECK(figure(result, "comm.bytes_sent.by_axis.tp") > 0);
    CHECK(figure(result, "difference.comm.bytes_sent.total") == 0);
    CHECK(figure(result, "comm.bytes_sent.total") ==
          figure(result, "comm.bytes_sent.by_axis.dp") +
              figure(result, "comm.bytes_sent.by_axis.tp") +
              figure(result, "comm.bytes_sent.by_axis.pp"));
  }
}

TEST_CASE("one wrong bit, byte, message, peak or replica fails the check that is for it") {
  const Run good = run_processes("llama-zero2");
  const auto changed = [&](const std::function<void(MeasuredRank&)>& change) {
    Run run = good;
    change(run.reports.back());
    return result_of(run, kMpi);
  };
  CHECK(!passed(changed([](MeasuredRank& r) { r.values.num_different = 1; }), "mpi.values"));
  CHECK(!passed(changed([](MeasuredRank& r) { r.groups.back().measured.payload_sent += 1; }),
                "mpi.bytes"));
  CHECK(!passed(changed([](MeasuredRank& r) { r.groups.back().measured.messages -= 1; }),
                "mpi.bytes"));
  CHECK(!passed(changed([](MeasuredRank& r) { r.first_link_difference = "somewhere"; }),
                "mpi.bytes"));
  CHECK(!passed(changed([](MeasuredRank& r) { r.peak_bytes += 1; }), "mpi.memory"));
  const auto replicas = [&](MeasuredRank& r) {
    r.replica_group = good.reports.front().replica_group;
    r.hashes.back() += "0";
  };
  CHECK(!passed(changed(replicas), "mpi.replicas"));
}

TEST_CASE("ranks that come, go or never train are replicas in the steps that they have") {
  Run run = run_processes("llama-elastic", {}, {"parallelism.elastic_members=[2,3]"});
  REQUIRE(run.reports.back().hashes.empty());
  REQUIRE(run.reports[2].hashes.size() < run.reports[0].hashes.size());
  CHECK(passed(result_of(run, kMpi), "mpi.replicas"));
  Run wrong = run;
  wrong.reports[2].hashes.back() += "0";
  CHECK(!passed(result_of(wrong, kMpi), "mpi.replicas"));
  wrong = run;
  wrong.reports[2].hashes.clear();  // It does train in the simulation.
  CHECK(!passed(result_of(wrong, kMpi), "mpi.replicas"));
}

TEST_CASE("replicas that compress differ in their residuals and in nothing else") {
  Run run = run_processes("mlp-ddp", {}, {"parallelism.gradient_compression=top_k"});
  CHECK(passed(result_of(run, kMpi), "mpi.replicas"));
  run.reports.back().hashes.back() += "0";
  CHECK(!passed(result_of(run, kMpi), "mpi.replicas"));
}

TEST_CASE("the wire is held against the simulation, bytes and messages, rank by rank") {
  Run run = run_processes("gpt-tp2-dp4");
  for (MeasuredRank& report : run.reports) {
    SentTotals sent;
    for (const GroupReport& group : report.groups) {
      sent.bytes +=
          group.simulated.payload_sent + group.simulated.padding_sent + group.simulated.scalar_sent;
      sent.messages += group.simulated.messages;
    }
    report.wire = sent;
  }
  CHECK(passed(result_of(run, kMpi), "mpi.wire"));
  // As much on the whole, but not by rank.
  ++run.reports[0].wire->bytes;
  --run.reports[1].wire->bytes;
  CHECK(!passed(result_of(run, kMpi), "mpi.wire"));
}

TEST_CASE("images say where they differ first, and by how much in terms of the largest value") {
  const Run run = run_processes("mlp-ddp");
  CHECK(run.reports.front().values.num_values > 0);
  CHECK(run.reports.front().values.first.empty());
  CHECK(run.reports.front().hashes == run.reports.back().hashes);
}

}  // namespace shardsim
