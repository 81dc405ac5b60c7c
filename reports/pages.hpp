#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "reports/text_summary.hpp"

// Pages to send to people: report.html of a run, the same as Markdown, and a search of layouts.
namespace shardsim {

/// report.html: one file that opens from disk and contains script, style and data. It requests
/// nothing from anywhere: its Content-Security-Policy forbids it. Without a script only the movable
/// charts are missing: tables and the plain figures of the printed page replace them. Equal input
/// gives equal bytes. Parts without facts are left out. No text of the input is ever markup.
///
/// Throws Error (internal) if `result.scenario_json` is not one JSON object.
[[nodiscard]] std::string to_html(const Result& result, const TextHeadline& headline,
                                  const RunDetail& detail);

/// A run as a page for wikis, issues and pull requests: the screen's content by stage and axis, all
/// assumptions, and all metrics with all digits. `detail`: null for a run that did not end; its
/// parts are left out. Names from users can neither break a table nor become markup.
[[nodiscard]] std::string to_markdown(const Result& result, const TextHeadline& headline,
                                      const RunDetail* detail);

struct LayoutRow {
  std::string layout;  ///< "tp8 pp4 dp4 zero1 1f1b mb1"
  double step_s = 0;
  double mfu = 0;  ///< Share of the peak.
  double tokens_per_s_per_gpu = 0;
  std::int64_t device_bytes = 0;  ///< The GPU memory that it needs.
  double usd_per_1t_tokens = 0;   ///< 0: no price was given.
  /// Around the step and the memory; empty: none is known. Days and dollars have the step's.
  std::vector<MetricBand> bands;
  double days = 0;  ///< By the model; 0: no tokens were given.
  double usd = 0;   ///< By the model, for these days; 0: no price was given.
  /// The flags with which frameworks train this layout; those that cannot are left out.
  struct Launch {
    std::string framework;  ///< "megatron"
    std::string text;       ///< Several lines.
  };
  std::vector<Launch> launches;
};

/// A search of layouts as a page for decisions: the ranking, a figure of speed against memory, the
/// reasons for the best layout, and the assumptions.
struct LayoutPage {
  std::string title;                ///< "llama3-70b on 128 GPUs of NVIDIA DGX H100"
  std::string facts;                ///< "bf16, 8,192 tokens per sequence, global batch 128"
  std::string order;                ///< "fastest first"
  std::string why;                  ///< Why not the second; empty without one.
  std::string counts;               ///< Counts of simulated and other layouts, in sentences.
  std::int64_t capacity_bytes = 0;  ///< Memory of one GPU.
  std::vector<LayoutRow> ranked;    ///< Best first.
  std::vector<LayoutRow> front;     ///< No layout is both faster and smaller; the fastest first.
  std::vector<LayoutRow> others;    ///< All other simulated layouts that fit.
  std::vector<std::string> assumptions;
};

/// One file, which requests nothing from anywhere and opens from disk. Its script adds search and
/// hover; without it everything else is there. Equal input gives equal bytes; no text of the input
/// is ever markup.
[[nodiscard]] std::string to_html(const LayoutPage& page);

/// The figure alone: tokens/s/GPU to the right, memory upwards. The layouts on the front have
/// their names beside it, each point tells its own when it is pointed at. Empty without layouts.
[[nodiscard]] std::string to_svg_scatter(const LayoutPage& page);

}  // namespace shardsim
