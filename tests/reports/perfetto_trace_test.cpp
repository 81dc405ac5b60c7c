#include "reports/perfetto_trace.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>
#include <unistd.h>

#include "reports/trace_layout.hpp"

#include "tests/reports/golden_file.hpp"
#include "tests/reports/sample_traces.hpp"

// What the bytes mean is said by two readers that are not ours: protoc here, and Perfetto's own
// trace processor in tests/reports/perfetto.
namespace shardsim {
namespace {

struct Output {
  int status = -1;
  std::string text;
};

Output run_shell(const std::string& command) {
  Output output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  for (std::size_t size = 0; (size = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    output.text.append(buffer, size);
  }
  output.status = pclose(pipe);
  return output;
}

/// `protoc ARGUMENTS < bytes`.
Output run_protoc(const std::string& arguments, const std::string& bytes) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("shardsim_trace_" + std::to_string(getpid()) + ".pftrace");
  std::ofstream(path, std::ios::binary) << bytes;
  Output output = run_shell("protoc " + arguments + " < " + path.string() + " 2>&1");
  std::filesystem::remove(path);
  return output;
}

bool protoc_is_missing() {
  const bool missing = run_shell("protoc --version >/dev/null 2>&1").status != 0;
  if (missing) WARN("skipped: protoc is not installed (Debian: protobuf-compiler)");
  return missing;
}

TEST_CASE("protoc reads the raw trace") {
  if (protoc_is_missing()) return;
  const Output output = run_protoc("--decode_raw", to_perfetto(samples::two_ranks()));
  INFO(output.text);
  REQUIRE(output.status == 0);
  REQUIRE(output.text.find("\"all_reduce\"") != std::string::npos);
}

TEST_CASE("every field of the trace has the meaning that Perfetto's schema gives it") {
  if (protoc_is_missing()) return;
  const Output output =
      run_protoc("--decode=perfetto.protos.Trace --proto_path=tests/reports/perfetto trace.proto",
                 to_perfetto(samples::two_ranks()));
  REQUIRE(output.status == 0);
  require_golden("trace.textproto", output.text);
}

TEST_CASE("equal traces give equal bytes, no ranks give an empty trace") {
  REQUIRE(to_perfetto(samples::two_ranks()) == to_perfetto(samples::two_ranks()));
  REQUIRE(to_perfetto({}).empty());
}

TEST_CASE("rounding to nanoseconds is to the nearest and never swaps two times") {
  REQUIRE(to_nanoseconds(Time::from_picoseconds(1'499)) == 1);
  REQUIRE(to_nanoseconds(Time::from_picoseconds(1'500)) == 2);
  REQUIRE(to_nanoseconds(Time::from_picoseconds(INT64_MAX)) == 9'223'372'036'854'776);
  rc::prop("monotone", [] {
    const auto a = *rc::gen::inRange<std::int64_t>(0, INT64_MAX);
    const auto step = *rc::gen::inRange<std::int64_t>(0, 3000);
    RC_PRE(a <= INT64_MAX - step);
    RC_ASSERT(to_nanoseconds(Time::from_picoseconds(a)) <=
              to_nanoseconds(Time::from_picoseconds(a + step)));
  });
}

TEST_CASE("processes and threads have ids of their own") {
  REQUIRE(process_of(0) == 1);
  REQUIRE(thread_of(7, 0) == process_of(7));
  REQUIRE(thread_of(999'998, 0) != thread_of(0, 1));
  REQUIRE(thread_of(999'998, 1'999) == 1'999'999'999);
}

}  // namespace
}  // namespace shardsim
