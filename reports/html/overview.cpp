#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/bars.hpp"
#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/svg/drawing.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

// The two charts of the first screen. Both are stairs: each part begins where the one above it
// ends, so that the last one ends at the whole.
namespace shardsim::html {
namespace {

struct Share {
  std::string name;
  double amount = 0;
  std::string ink;
};

// Waiting for communication by axis where the run tells it; the axes sum to the whole of it.
void add_waiting(const Input& input, std::vector<Share>& parts) {
  const double exposed = input.result.number(metric::kTimeExposedCommS).value_or(0);
  if (input.detail.axes.empty()) {
    parts.push_back({"waiting for communication", exposed, "time-1"});
    return;
  }
  for (const AxisComm& axis : input.detail.axes) {
    parts.push_back({"waiting for " + axis.axis, axis.exposed_s, "time-1"});
  }
}

std::vector<Share> parts_of_the_step(const Input& input) {
  const auto seconds = [&input](const MetricRow& row) {
    return input.result.number(row).value_or(0);
  };
  std::vector<Share> parts = {{"computing", seconds(metric::kTimeComputeS), "time-0"}};
  add_waiting(input, parts);
  parts.push_back({"bubble and idle", seconds(metric::kTimeBubbleS), "time-2"});
  parts.push_back({"waiting for the host", seconds(metric::kTimeHostS), "time-3"});
  std::erase_if(parts, [](const Share& part) { return part.amount == 0; });
  return parts;
}

bool are_drawable(const std::vector<Share>& parts) {
  return !parts.empty() && std::ranges::all_of(parts, [](const Share& part) {
    return std::isfinite(part.amount) && part.amount > 0;
  });
}

// Tenths of a percent that sum to 100 %.
std::vector<std::string> shares_in_words(const std::vector<Share>& parts) {
  std::vector<double> amounts;
  for (const Share& part : parts) amounts.push_back(part.amount);
  std::vector<std::string> words;
  for (const int tenths : apportion(amounts, 1000)) {
    words.push_back(fmt::format("{}.{} %", tenths / 10, tenths % 10));
  }
  return words;
}

// Adds a row for each part; returns where the last one ends.
double add_stairs(const std::vector<Share>& parts, const std::vector<std::string>& amounts,
                  BarChart& chart) {
  double begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    chart.rows.push_back(
        {parts[i].name, {{begin, parts[i].amount, parts[i].ink, ""}}, amounts[i], false});
    begin += parts[i].amount;
  }
  return begin;
}

// Bytes by category at the peak of the fullest rank. Without detail there are only the largest of
// all ranks: these are it if they sum to the peak.
std::vector<double> tensors_by_category(const Input& input, double peak) {
  std::vector<double> bytes(kNumMemoryCategories, 0.0);
  const std::vector<StageTime>& stages = input.detail.stages;
  if (!stages.empty()) {
    std::ranges::copy(std::ranges::max_element(stages, {}, &StageTime::peak_bytes)->at_peak,
                      bytes.begin());
    return bytes;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = input.result.number(*kMemoryMetrics.at(i)).value_or(0);
  }
  return std::accumulate(bytes.begin(), bytes.end(), 0.0) == peak ? bytes : std::vector<double>();
}

std::vector<Share> parts_of_tensors(const Input& input, double peak) {
  std::vector<Share> parts;
  const std::vector<double> bytes = tensors_by_category(input, peak);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > 0) {
      parts.push_back({svg::kMemoryInks.at(i).name, bytes[i], fmt::format("memory-{}", i)});
    }
  }
  return parts.empty() ? std::vector<Share>{{"tensors", peak, "memory-3"}} : parts;
}

std::string of_device(double bytes, double device) {
  return device > 0 ? format_memory(bytes) + ", " + fmt::format("{:.1f} %", 100 * bytes / device)
                    : format_memory(bytes);
}

}  // namespace

std::string time_overview(const Input& input) {
  const std::vector<Share> parts = parts_of_the_step(input);
  if (!are_drawable(parts)) return {};
  BarChart chart{.title = "Where the time of a step goes",
                 .caption =
                     "The rank that ends last, by the model. Communication that computing "
                     "hides is not in it."};
  std::vector<std::string> amounts = shares_in_words(parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    amounts[i] = format_seconds(parts[i].amount) + ", " + amounts[i];
  }
  chart.full = add_stairs(parts, amounts, chart);
  chart.rows.push_back({"whole step", {{0, chart.full, "", ""}}, format_seconds(chart.full), true});
  return bar_chart(chart);
}

std::string memory_overview(const Input& input) {
  const double peak = input.result.number(metric::kMemoryPeakBytesMax).value_or(0);
  const std::vector<Share> parts = parts_of_tensors(input, peak);
  if (!are_drawable(parts)) return {};
  const double device = std::max(0.0, input.headline.device_memory_bytes);
  BarChart chart{.title = "Memory of the fullest GPU",
                 .caption = device > 0 ? "At its peak, by the model. The dashed line is what a GPU "
                                         "has."
                                       : "At its peak, by the model."};
  if (device > 0) chart.line = device;
  std::vector<std::string> amounts;
  for (const Share& part : parts) amounts.push_back(of_device(part.amount, device));
  const double tensors = add_stairs(parts, amounts, chart);
  chart.rows.push_back({"all tensors", {{0, tensors, "", ""}}, of_device(tensors, device), true});
  chart.full = std::max(tensors, device);
  const double used = input.result.number(metric::kMemoryDeviceBytesMax).value_or(0);
  if (used > tensors) {
    chart.rows.push_back({"allocator, CUDA, NCCL",
                          {{tensors, used - tensors, "time-2", ""}},
                          of_device(used - tensors, device),
                          false});
    chart.rows.push_back({"in use", {{0, used, "", ""}}, of_device(used, device), true});
    chart.full = std::max(chart.full, used);
  }
  if (const MetricBand* const band = input.result.band_of(metric::kMemoryDeviceBytesMax)) {
    chart.rows.push_back({band_held(*band),
                          {{band->low, band->high - band->low, "hidden", ""}},
                          band_range(*band),
                          false});
    chart.full = std::max(chart.full, band->high);
  }
  if (device > 0) {
    chart.rows.push_back({"a GPU has", {{0, device, "", ""}}, format_memory(device), true});
  }
  chart.full *= 1.01;  // The line at the end stays visible.
  return bar_chart(chart);
}

}  // namespace shardsim::html
