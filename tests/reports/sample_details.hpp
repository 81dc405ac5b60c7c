#pragma once

#include <cstdint>
#include <string>

#include "reports/run_detail.hpp"

#include "tests/reports/sample_results.hpp"

// Results with everything that pages show of them.
namespace shardsim::samples {

struct Page {
  Sample sample;
  RunDetail detail;
};

/// Sizes of a made-up run with tensor, pipeline and data parallelism.
struct PageShape {
  std::int64_t stages = 4;
  std::int64_t microbatches = 16;
  std::int64_t ranks = 64;
  std::int64_t cells = 64;
  std::int64_t memory_points = 200;
  /// Bars of tensor-parallel communication in each stage; of those of computing there are as many
  /// as the schedule has.
  std::int64_t comm_bars = 64;
};

/// A 1F1B schedule, in which times, memory and traffic fit each other as far as a reader can see.
/// Equal shapes give equal pages.
[[nodiscard]] Page pipeline_page(const PageShape& shape);

/// 64 ranks on four stages.
[[nodiscard]] Page small_page();

/// As much as a page of 1,024 ranks can hold: 128 x 128 cells, eight stages with 2,000 points of
/// memory each, 20,000 bars.
[[nodiscard]] Page large_page();

/// Names that want to be markup, scripts and terminal commands, wherever a name can stand.
[[nodiscard]] Page hostile_page();
inline constexpr const char* kHostile = "</script><img src=x onerror=alert(1)>\"'&\x1b[31m";

/// The small page with what its step depends on.
[[nodiscard]] Page sensitive_page();

/// A run of one rank, of which nothing but metrics is known.
[[nodiscard]] Page bare_page();

}  // namespace shardsim::samples
