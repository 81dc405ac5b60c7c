#include "sim/search/layout_json.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "sim/kernel/metric_table.hpp"

namespace shardsim {

using Json = nlohmann::ordered_json;

void add_layout(Json& json, const Candidate& candidate) {
  json["layout"] = words_of(candidate);
  for_each_field(candidate,
                 [&](const char* name, const auto& value) { json["fields"][name] = value; });
}

void add_point(Json& json, const SimulatedPoint& point) {
  add_layout(json, point.candidate);
  Json metrics;
  for (const auto& [row, value] : kPointMetrics) metrics[row.name] = point.*value;
  metrics[metric::kMemoryPeakBytesMax.name] = point.peak_bytes;
  metrics[metric::kMemoryDeviceBytesMax.name] = point.device_bytes;
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
    metrics[kMemoryMetrics.at(i)->name] = point.category_bytes.at(i);
  }
  json["metrics"] = std::move(metrics);
}

void add_bands(Json& json, const Result& measured) {
  Json bands = Json::object();
  for (const MetricBand& band : measured.error_bands) {
    bands[band.metric] = {{"low", band.low},
                          {"centre", band.centre},
                          {"high", band.high},
                          {"runs", band.runs},
                          {"group", band.group},
                          {"too_few", band.too_few},
                          {"held_out_share", band.held_out_share}};
  }
  json["error_bands"] = bands;
  if (!measured.no_error_band.empty()) json["no_error_band"] = measured.no_error_band;
}

}  // namespace shardsim
