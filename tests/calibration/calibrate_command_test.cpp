#include <cmath>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "sim/accuracy/calibration.hpp"

#include "tests/calibration/calibrate_fixture.hpp"

// `shardsim calibrate` as a user meets it.
namespace shardsim::test {
namespace {

using nlohmann::json;

json overlay_of(const TemporaryFolder& folder, const Words& words) {
  constexpr bool kComments = true;
  return json::parse(overlay_text_of(folder, words), nullptr, true, kComments);
}

// Both are printed with four and two digits behind the point. Times are printed to 1 in 20,000
// where bytes dominate, and to 0.005 us where latency does.
void check_correction(const json& found, double factor, double latency_us) {
  CHECK(std::abs(found.value("bandwidth_factor", 1.0) / factor - 1) <= 1e-4 + 5e-5);
  CHECK(std::abs(found.value("added_latency_us", 0.0) - latency_us) <= 0.011);
}

std::string refusal(const Words& words) {
  const Printed printed = shardsim(Words{"calibrate"} + words);
  CHECK(printed.exit_code == 2);
  CHECK(printed.out.empty());
  CHECK(contains(printed.err, "= help: "));
  return printed.err.substr(0, printed.err.find('\n'));
}

}  // namespace

TEST_CASE("our own prices calibrate to what they are") {
  const TemporaryFolder folder;
  Words files;
  for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                "broadcast", "reduce", "gather", "scatter"}) {
    for (const int ranks : {8, 16}) {
      files.push_back(folder / (operation + std::to_string(ranks)));
      write(files.back(), simulated(operation, ranks));
      const json found = overlay_of(folder, {files.back()});
      INFO(operation << " of " << ranks);
      CHECK(found.size() == 1);
      check_correction(found.at(ranks == 8 ? "intra_node" : "inter_node"), 1, 0);
    }
  }
  files.push_back(folder / "sendrecv");
  write(files.back(), simulated("sendrecv", 8));
  const json all = overlay_of(folder, files);
  check_correction(all.at("intra_node"), 1, 0);
  check_correction(all.at("inter_node"), 1, 0);
}

TEST_CASE("corrections that made a table are found again, and applied again give it") {
  const TemporaryFolder folder;
  const Words truth = {"--set", "system.nccl.intra_node.bandwidth_factor=0.83",
                       "--set", "system.nccl.intra_node.added_latency_us=7.25",
                       "--set", "system.nccl.inter_node.bandwidth_factor=1.31",
                       "--set", "system.nccl.inter_node.added_latency_us=-3.5"};
  Words files;
  for (const char* operation : {"all_reduce", "all_gather", "all_to_all"}) {
    for (const int ranks : {8, 32}) {
      files.push_back(folder / (operation + std::to_string(ranks)));
      write(files.back(), simulated(operation, ranks, truth));
    }
  }
  const json found = overlay_of(folder, files);
  check_correction(found.at("intra_node"), 0.83, 7.25);
  check_correction(found.at("inter_node"), 1.31, -3.5);
  CHECK(found.at("intra_node").at("source") ==
        "shardsim calibrate: all_reduce of 8 ranks on 1 node (all_reduce8), all_gather of 8 ranks "
        "on 1 node (all_gather8), all_to_all of 8 ranks on 1 node (all_to_all8)");
  // As --set takes it, comments and all.
  const std::string overlay = "system.nccl=" + content_of(folder / "overlay.json");
  const std::string again = simulated("all_to_all", 32, {"--set", overlay});
  CHECK(contains(again, "8589934592"));
  write(folder / "again", again);
  const json same = overlay_of(folder, {folder / "again"}).at("inter_node");
  check_correction(same, found.at("inter_node").at("bandwidth_factor"),
                   found.at("inter_node").at("added_latency_us"));
}

TEST_CASE("quiet, a fit is written and not told") {
  const TemporaryFolder folder;
  const Words of_links = {kA100, "--system", "dgx-a100"};
  const Words of_kernels = {"kernels",  "tests/validation/gemm_aiconfigurator.csv",
                            "--value",  "operation=matmul",
                            "--where",  "gpu=B200-SXM",
                            "--where",  "dtype=bf16",
                            "--system", "dgx-b200"};
  for (const Words& words : {of_links, of_kernels}) {
    const std::string loud = overlay_text_of(folder, words);
    CHECK_FALSE(loud.empty());
    for (const char* const quiet : {"-q", "--quiet"}) {
      const std::string out = folder / (std::string("quiet") + quiet + ".json");
      const Printed printed = shardsim(Words{"calibrate"} + words + Words{"--out", out, quiet});
      CHECK(printed.exit_code == 0);
      CHECK(printed.out + printed.err == "");
      CHECK(content_of(out) == loud);
    }
  }
  const Printed refused = shardsim({"calibrate", kB200, "--system", "dgx-a101", "-q"});
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "there is no system \"dgx-a101\""));
}

TEST_CASE("algorithms that NCCL was held to are told by --set, and stay in what is written") {
  const TemporaryFolder folder;
  const Words ring = {"--set", "system.nccl.algorithms=ring", "--set",
                      "system.nccl.protocols=^ll128"};
  write(folder / "ring", simulated("all_reduce", 8, ring));
  const json held = overlay_of(folder, Words{folder / "ring"} + ring);
  check_correction(held.at("intra_node"), 1, 0);
  CHECK(held.at("algorithms") == "ring");
  CHECK(held.at("protocols") == "^ll128");
  const json free = overlay_of(folder, {folder / "ring"});  // Against NVLS.
  CHECK(free.at("intra_node").at("bandwidth_factor") < 0.8);
  CHECK_FALSE(free.contains("algorithms"));
}

// Figures of the day they were written. The tables are in no way fitted to elsewhere.
TEST_CASE("published tables calibrate to what they did") {
  const Printed a100 = shardsim({"calibrate", kA100, "--system", "dgx-a100"});
  CHECK(a100.exit_code == 0);
  CHECK(
      contains(a100.out, "  calibrated, all tables together                  1.2112     +14.12\n"));
  CHECK(contains(
      a100.out,
      "    all_reduce, 16 ranks on 2 nodes                  24.3        6.6        6.8\n"));
  const Printed b200 =
      shardsim({"calibrate", kB200, "--system", "dgx-b200", "--ranks", "16", "--nodes", "2"});
  CHECK(b200.exit_code == 0);
  CHECK(
      contains(b200.out, "  calibrated, all tables together                  1.4562     +15.54\n"));
  CHECK(contains(
      b200.out,
      "    all_reduce, 16 ranks on 2 nodes                  30.6        8.7        9.1\n"));
}

TEST_CASE("a table that is far from the machine's prices is doubted") {
  CHECK(contains(shardsim({"calibrate", kA100, "--system", "dgx-h100"}).out,
                 " x the bandwidth that NVIDIA DGX H100 should have: was another "
                 "machine measured?\n"));
  CHECK_FALSE(contains(shardsim({"calibrate", kA100, "--system", "dgx-a100"}).out, "another"));
}

TEST_CASE("few rows held out are no proof") {
  const Printed few = shardsim(
      {"calibrate", "kernels", "tests/calibration/data/kernel-trace.json", "--system", "dgx-h100"});
  CHECK(
      contains(few.out, "  note: 2 rows of matmul, bf16, held out: too few to judge the fit by\n"));
}

TEST_CASE("what is odd about a table is noted beside it") {
  const TemporaryFolder folder;
  std::string text = content_of(kA100);
  const Printed other = shardsim({"calibrate", kA100});
  CHECK(contains(other.out,
                 "note: it was measured on NVIDIA A100-SXM4-40GB, the system has NVIDIA "
                 "H100 SXM 80GB\n"));
  text =
      "mpirun -x NCCL_ALGO=Ring all_reduce_perf\n" + text.substr(0, text.find("# Out of bounds"));
  write(folder / "cut", text);
  const Printed cut = shardsim({"calibrate", folder / "cut", "--system", "dgx-a100"});
  CHECK(cut.exit_code == 0);
  CHECK(contains(cut.out, "note: it ends without its average bandwidth: was it cut off?"));
  CHECK(
      contains(cut.out, "note: a command before it has NCCL_ALGO=Ring, which NCCL is not held to"));
  const Printed told = shardsim({"calibrate", folder / "cut", "--system", "dgx-a100", "--set",
                                 "system.nccl.algorithms=ring"});
  CHECK_FALSE(contains(told.out, "NCCL_ALGO"));
  CHECK(
      contains(told.out, "note: measured latencies are lower still; -5 us is the least there is"));
}

TEST_CASE("one part can be fitted where the sizes are those of one") {
  const TemporaryFolder folder;
  write(
      folder / "large",
      simulated("all_reduce", 8, {"--set", "system.nccl.intra_node.bandwidth_factor=0.9"}, "256M"));
  CHECK(contains(refusal({folder / "large"}),
                 "error[E0948]: there are too few small sizes within a node"));
  const json found = overlay_of(folder, {folder / "large", "--fit", "bandwidth"});
  check_correction(found.at("intra_node"), 0.9, 0);
  write(folder / "small", simulated("all_reduce", 8, {}, "8", "64K"));
  CHECK(contains(refusal({folder / "small", "--op", "all_reduce"}),
                 "error[E0948]: there are too few large sizes within a node"));
  check_correction(overlay_of(folder, {folder / "small", "--fit", "latency"}).at("intra_node"), 1,
                   0);
}

TEST_CASE("wrong uses are refused with a way out") {
  const TemporaryFolder folder;
  CHECK(contains(refusal({}), "error[E0940]: no output of nccl-tests is given"));
  CHECK(contains(refusal({folder / "none"}), "error[E0001]"));
  CHECK(contains(refusal({kB200, "--system", "dgx-b200"}), "error[E0945]"));
  CHECK(contains(refusal({kA100, "--system", "dgx-a10"}), "error[E1087]"));
  CHECK(
      contains(refusal({kA100, "--system", "dgx-a100", "--set", "system.network_model=alpha_beta"}),
               "error[E0949]"));
  CHECK(contains(refusal({kA100, "--system", "dgx-a100", "--set", "system.nccl.algorithms=pat"}),
                 "error[E0407]"));
  CHECK(contains(refusal({kA100, "--fit", "all"}), "error[E0904]"));
  write(folder / "sendrecv", simulated("sendrecv", 16));
  CHECK(contains(refusal({folder / "sendrecv"}), "error[E0944]: the times of this sendrecv"));
  const Printed unwritable =
      shardsim({"calibrate", kA100, "--system", "dgx-a100", "--out", folder / "no/such"});
  CHECK(unwritable.exit_code == 2);
  CHECK(contains(unwritable.err, "error[E0901]"));
}

TEST_CASE("held-out errors are those of fits that did not see the sizes") {
  PricedTable table;
  for (int i = 0; i < 8; ++i) {
    // Every other size as if the bandwidth were half.
    table.points.push_back({1, 1000, i % 2 == 0 ? 1001.0 : 2001.0});
  }
  const std::vector<TierCalibration> tiers = calibrate({table}, {.latency = false});
  REQUIRE(tiers.size() == 1);
  CHECK(tiers.front().correction.bandwidth_factor == 0.6667);  // The median is between the two.
  const CalibratedTable& errors = tiers.front().errors.front();
  CHECK(errors.before == Approx((1 - 1001.0 / 2001.0) / 2));
  CHECK(errors.held_out == Approx((1 - 1001.0 / 2001.0 + 2001.0 / 1001.0 - 1) / 2));
  CHECK(errors.after == Approx((1500.9 / 1001 - 1 + 1 - 1500.9 / 2001) / 2).epsilon(1e-4));
}

TEST_CASE("tables of different tiers do not touch each other, and absurd ones are refused") {
  PricedTable near;
  PricedTable far;
  far.tier = NetworkTier::between;
  for (int i = 0; i < 8; ++i) {
    near.points.push_back({1, 1000, 2001});
    far.points.push_back({1, 1000, 501});
  }
  const std::vector<TierCalibration> tiers = calibrate({near, far}, {.latency = false});
  REQUIRE(tiers.size() == 2);
  CHECK(tiers[0].correction.bandwidth_factor == 0.5);
  CHECK(tiers[1].correction.bandwidth_factor == 2);
  CHECK(tiers[0].errors.front().after == 0);
  CHECK(tiers[1].errors.front().after == 0);
  for (CalibrationPoint& point : near.points) point.measured_us = 0.5;
  CHECK_THROWS_AS(calibrate({near}, {.latency = false}), UsageError);
}

}  // namespace shardsim::test
