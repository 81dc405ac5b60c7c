#include "sim/search/precision_table.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "reports/terminal_text.hpp"
#include "reports/units.hpp"

namespace shardsim {
namespace {

constexpr double kDollarsPerK = 1e3;
constexpr std::size_t kLayoutIndent = 6;  // A layout's, below its numbers.
constexpr std::size_t kScreenWidth = 100;

// "mxfp8" where "fp8" has several meanings.
std::string precision_words(const SearchReport& report) {
  const bool has_recipe = report.recipe != "none" && report.recipe != report.precision;
  return report.precision + (has_recipe ? " " + report.recipe : std::string());
}

std::string proof_words(const SearchReport& report) {
  const bool is_best = !report.ranked.empty() && is_proven(report.ranked.front(), report.gap);
  if (report.stop == SearchStop::none || is_best) return "proven";
  return report.gap ? fmt::format("gap {:.3g} %", *report.gap * kPercent) : "not known";
}

// The best of a precision beside the first of all.
double ratio_to(const SimulatedPoint& best, const SimulatedPoint& first, Objective objective) {
  if (objective != Objective::memory) return best.step_time_s / first.step_time_s;
  return static_cast<double>(best.device_bytes) / static_cast<double>(first.device_bytes);
}

std::string table_row(const SearchReport& report, const SearchReport& first) {
  if (report.ranked.empty()) {
    const char* words = report.stop == SearchStop::none ? "no layout fits"
                        : report.num_candidates == 0    ? "not searched"
                                                        : "none found yet";
    return fmt::format("  {:<18}{}\n", precision_words(report), words);
  }
  const SimulatedPoint& best = report.ranked.front();
  std::string text =
      fmt::format("  {:<18}{:>9}{:>8}{:>7.1f}%{:>11}{:>11}{:>12}", precision_words(report),
                  format_seconds(best.step_time_s),
                  fmt::format("{:.2f}x", ratio_to(best, first.ranked.front(), report.objective)),
                  best.mfu * kPercent, format_number(best.tokens_per_s_per_gpu),
                  format_memory(best.device_bytes), proof_words(report));
  if (report.usd_per_gpu_hour > 0) {
    text += fmt::format("{:>10}k", format_number(report.usd_per_1t_tokens(best) / kDollarsPerK));
  }
  return text + "\n" + std::string(kLayoutIndent, ' ') +
         truncate_to_width(words_of(best.candidate), kScreenWidth - kLayoutIndent) + "\n";
}

std::string note(const std::string& words) {
  std::string text;
  for (const std::string& line : wrap_to_width(words, kScreenWidth - 2, 2)) {
    text += "  " + line + "\n";
  }
  return text;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

std::vector<std::string> precisions_of(const std::string& list) {
  std::vector<std::string> precisions;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = list.find(',', begin);
    const std::string part = trimmed(list.substr(begin, comma - begin));
    const bool is_there = std::ranges::find(precisions, part) != precisions.end();
    if (part.empty() || is_there) {
      throw UsageError("E1334",
                       fmt::format("--precision {} {}", escape_untrusted(list),
                                   is_there ? "names a precision twice" : "has an empty name"),
                       "name each precision once: --precision fp8,bf16");
    }
    precisions.push_back(part);
    if (comma == std::string::npos) return precisions;
    begin = comma + 1;
  }
}

std::vector<std::size_t> rank_precisions(const std::vector<SearchReport>& reports) {
  std::vector<std::size_t> order(reports.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t left, std::size_t right) {
    const SearchReport& a = reports[left];
    const SearchReport& b = reports[right];
    if (a.ranked.empty() || b.ranked.empty()) return !a.ranked.empty() && b.ranked.empty();
    return ranks_before(a.ranked.front(), b.ranked.front(), a.objective);
  });
  return order;
}

std::string to_text(const std::vector<SearchReport>& reports, const SearchTextOptions& options) {
  const SearchReport& first = reports.front();
  std::string text =
      fmt::format("{} on {} GPU{} of {}: {} precisions, {} tokens per sequence, global batch {}\n",
                  escape_untrusted(first.model), first.num_gpus, first.num_gpus == 1 ? "" : "s",
                  escape_untrusted(first.system), reports.size(), format_count(first.seq_len),
                  format_count(first.global_batch_size));
  text += fmt::format("\n  {:<18}{:>9}{:>8}{:>8}{:>11}{:>11}{:>12}", "precision", "step", "", "MFU",
                      "tok/s/GPU", "memory", "search");
  if (first.usd_per_gpu_hour > 0) text += fmt::format("{:>11}", "$/1T tok");
  text += "\n";
  for (const SearchReport& report : reports) text += table_row(report, first);
  text += "\n";
  text += note(
      "MFU divides by the peak of the precision's products, so it falls where a step gets faster. "
      "Whether a model trains as well in fewer bits is not simulated.");
  for (const SearchReport& report : reports) {
    if (report.stop == SearchStop::none || report.num_candidates == 0) continue;
    text += note(precision_words(report) + ": " + stop_words(report));
  }
  if (!options.command.empty()) text += "\nnext: " + options.command + "\n";
  return text;
}

std::string to_json(const std::vector<SearchReport>& reports) {
  std::string text = "{\"precisions\": [";
  for (std::size_t i = 0; i < reports.size(); ++i) {
    std::string one = to_json(reports[i]);
    while (!one.empty() && one.back() == '\n') one.pop_back();
    text += (i == 0 ? "\n" : ",\n") + one;
  }
  return text + "\n]}\n";
}

}  // namespace shardsim
