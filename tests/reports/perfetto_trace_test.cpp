#include <string>

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

#include "reports/trace_writers.hpp"

#include "tests/protoc.hpp"
#include "tests/reports/golden_file.hpp"
#include "tests/reports/sample_traces.hpp"

// Two readers that are not ours tell the meaning of the bytes: protoc here, and Perfetto's own
// trace processor in tests/reports/perfetto. tests/app/trace_file_test.cpp reads the trace of a
// whole run.
namespace shardsim {
namespace {

TEST_CASE("protoc reads the raw trace") {
  const std::string text = test::run_protoc("--decode_raw", to_perfetto(samples::two_ranks()));
  INFO(text);
  REQUIRE(text.find("\"all_reduce\"") != std::string::npos);
}

TEST_CASE("every field of the trace has the meaning that Perfetto's schema gives it") {
  require_golden(
      "trace.textproto",
      test::run_protoc(
          "--decode=perfetto.protos.Trace --proto_path=tests/reports/perfetto trace.proto",
          to_perfetto(samples::two_ranks())));
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
