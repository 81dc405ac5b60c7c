#include "sim/accuracy/bands_text.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "sim/accuracy/validated_table.hpp"
#include "sim/run/band/band_coverage.hpp"

namespace shardsim {

namespace {

constexpr LeftOut kLeftOut = {
    "groups, centres, widths, and the choice between centre and model",
    "constants of the model: two times of the host rest on half of vtrain_single_node, prices of "
    "kernels and collectives on tables of single operations (docs/guide/accuracy.md)"};

std::string total_text(const QuantityInfo& info, const BandCoverage& coverage) {
  return fmt::format(
      "  {:<12}{} of {} rows inside; without the row's own table: {}, in the mean of {} tables "
      "{:.0f} %, of rows {:.0f} %, outside {} {:.0f} %; mean error of centres {:.1f} %, of the "
      "model {:.1f} %\n",
      info.title, coverage.inside(), coverage.rows(), coverage.inside_without(),
      coverage.tables.size(), 100.0 * coverage.mean_share_without(),
      100.0 * static_cast<double>(coverage.inside_without()) / static_cast<double>(coverage.rows()),
      coverage.largest().name, 100.0 * coverage.share_but_largest(),
      100.0 * coverage.mean_centre_error_without(), 100.0 * coverage.mean_model_error());
}

std::string band_of_group(const GroupCoverage& group) {
  if (group.band_group.empty()) return "of its parts";
  return group.band_group == group.group ? "its own" : group.band_group;
}

// Held out are shares inside bands that were made without the row's table: the mean of tables, and
// that of rows.
std::string groups_text(const BandCoverage& coverage) {
  std::size_t width = 0;
  for (const GroupCoverage& group : coverage.groups) width = std::max(width, group.group.size());
  std::string text = fmt::format("    {:<{}}{:>6}{:>8}{:>10}{:>8}{:>7}{:>9}   {}\n", "", width,
                                 "rows", "tables", "held out", "rows", "width", "bias", "band");
  for (const GroupCoverage& group : coverage.groups) {
    text += fmt::format(
        "    {:<{}}{:>6}{:>8}{:>8.0f} %{:>6.0f} %{:>7.2f}{:>+7.1f} %   {}\n", group.group, width,
        group.rows, group.tables, 100.0 * group.mean_share_without,
        100.0 * static_cast<double>(group.inside_without) / static_cast<double>(group.rows),
        group.width, 100.0 * group.bias, band_of_group(group));
  }
  return text;
}

// The smallest groups whose band does not hold the model's number.
std::string outside_text(const BandCoverage& coverage) {
  std::string text;
  for (const GroupCoverage& group : coverage.groups) {
    if (group.outside == 0 || group.outside < group.rows) continue;
    text +=
        fmt::format("{}{} ({:+.0f} %)", text.empty() ? "" : ", ", group.group, 100.0 * group.bias);
  }
  return "    the model's number lies outside the band of: " + (text.empty() ? "none" : text) +
         "\n";
}

}  // namespace

LeftOut left_out_words() { return kLeftOut; }

std::string bands_text(const std::vector<MeasuredError>& errors) {
  std::string text;
  for (const char* software : {"any framework", "none"}) {
    std::string lines;
    for (const QuantityInfo& info : kQuantities) {
      const BandCoverage coverage = band_coverage(errors, std::string(info.key), software);
      if (coverage.tables.empty()) continue;
      lines += total_text(info, coverage) + groups_text(coverage) + outside_text(coverage);
    }
    if (lines.empty()) continue;
    const bool is_without = std::string_view(software) == "none";
    text += fmt::format("error bands (8 of 10){}\n{}",
                        is_without ? ", predicted without a framework" : "", lines);
  }
  if (text.empty()) return text;
  return text + fmt::format("  made anew without a table: {}\n  not made anew: {}\n",
                            kLeftOut.made_anew, kLeftOut.kept);
}

}  // namespace shardsim
