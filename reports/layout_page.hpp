#pragma once

#include <cstdint>
#include <string>
#include <vector>

// A search of layouts as a page for decisions: the ranking, a figure of speed against memory, the
// reasons for the best layout, and the assumptions.
namespace shardsim {

struct LayoutRow {
  std::string layout;  ///< "tp8 pp4 dp4 zero1 1f1b mb1"
  double step_s = 0;
  double mfu = 0;  ///< Share of the peak.
  double tokens_per_s_per_gpu = 0;
  std::int64_t device_bytes = 0;  ///< The GPU memory that it needs.
  double usd_per_1t_tokens = 0;   ///< 0: no price was given.
};

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

/// One file without a script, which requests nothing from anywhere and opens from disk. Equal input
/// gives equal bytes; no text of the input is ever markup.
[[nodiscard]] std::string to_html(const LayoutPage& page);

/// The figure alone: tokens/s/GPU to the right, memory upwards. Empty without layouts.
[[nodiscard]] std::string to_svg_scatter(const LayoutPage& page);

}  // namespace shardsim
