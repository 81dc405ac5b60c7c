#include "backends/probe.hpp"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "backends/nccl/nccl_library.hpp"

#include "tests/temporary_folder.hpp"

namespace shardsim {
namespace {

const std::vector<ProbeRow> kRows = {
    {.what = "mpirun", .available = true, .detail = "mpirun (Open MPI) 4.1.4"},
    {.what = "NVIDIA driver", .detail = "no \"driver\"", .remedy = "buy a GPU"}};
const DoctorReport kReport = {
    kRows, {readiness_of("mpi", {kRows[0]}), readiness_of("nccl", {kRows[0], kRows[1]})}};

void write_program(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("doctor: one line per row, one for the remedy of what is missing, one per backend") {
  CHECK(render_doctor(kReport) ==
        "ok       mpirun         mpirun (Open MPI) 4.1.4\n"
        "missing  NVIDIA driver  no \"driver\"\n"
        "                        fix: buy a GPU\n"
        "mpi: ready\n"
        "nccl: not ready: no \"driver\"\n");
  const auto document = nlohmann::json::parse(render_doctor_json(kReport));
  REQUIRE(document["doctor"].size() == 2);
  CHECK(document["doctor"][0]["available"] == true);
  CHECK(document["doctor"][1]["what"] == "NVIDIA driver");
  CHECK(document["doctor"][1]["detail"] == "no \"driver\"");
  CHECK(document["doctor"][1]["remedy"] == "buy a GPU");
  REQUIRE(document["backends"].size() == 2);
  CHECK(document["backends"][0]["backend"] == "mpi");
  CHECK(document["backends"][0]["ready"] == true);
  CHECK(document["backends"][0]["problem"] == "");
  CHECK(document["backends"][1]["ready"] == false);
  CHECK(document["backends"][1]["problem"] == "no \"driver\"");
}

TEST_CASE("mpirun is looked for along PATH, asked for its version, and has to be Open MPI's") {
  const test::TemporaryFolder folder;
  const std::filesystem::path root = folder.path();
  write_program(root / "open it's/mpirun",
                "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\necho more\n");
  write_program(root / "other/mpirun", "#!/bin/sh\necho 'HYDRA build details:'\n");
  const std::string open = (root / "open it's").string();
  const ProbeRow found = probe_mpirun((root / "none").string() + ":" + open);
  CHECK(found.available);
  CHECK(found.detail == "mpirun (Open MPI) 4.1.4, " + open + "/mpirun");
  CHECK(found.remedy.empty());
  const ProbeRow other = probe_mpirun((root / "other").string() + ":" + open);
  CHECK_FALSE(other.available);
  CHECK_FALSE(other.remedy.empty());
  const ProbeRow none = probe_mpirun((root / "none").string());
  CHECK_FALSE(none.available);
  CHECK(none.detail == "no mpirun on PATH");
}

TEST_CASE("an NCCL among Python's packages is a hint") {
  const test::TemporaryFolder folder;
  const std::filesystem::path root = folder.path();
  write_program(root / "bin/python3", "");
  const auto library = root / "lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2";
  write_program(library, "");
  CHECK(nccl_of_python_packages("/nowhere:" + (root / "bin").string()) ==
        std::vector<std::string>{library.string()});
  CHECK(nccl_of_python_packages("/nowhere").empty());
}

TEST_CASE("the loopback counter is trusted if it counts") {
  const test::TemporaryFolder folder;
  const std::string still = (std::filesystem::path(folder.path()) / "rx_bytes").string();
  std::ofstream(still) << "1000\n";
  CHECK(read_loopback_bytes(still) == 1000);
  const ProbeRow stuck = probe_loopback_counter(1 << 16, still);
  CHECK_FALSE(stuck.available);
  CHECK(stuck.detail == "0 of 65536 bytes counted");
  CHECK_FALSE(stuck.remedy.empty());
  const ProbeRow none = probe_loopback_counter(1 << 16, still + ".none");
  CHECK_FALSE(none.available);
  CHECK_THAT(none.detail, Catch::Contains("cannot be read"));
  // Other programs may be using the real one.
  CHECK_THAT(probe_loopback_counter().detail,
             Catch::Contains("1048576 bytes counted") || Catch::Contains("cannot be read"));
}

}  // namespace shardsim
