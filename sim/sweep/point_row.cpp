#include "sim/sweep/point_row.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "reports/csv_tables.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSweepFormat = "shardsim-sweep";
constexpr int kFormatVersion = 3;
constexpr std::array<std::string_view, 4> kStatusNames = {"ok", "invalid", "out_of_memory",
                                                          "failed"};
constexpr std::array<const char*, 6> kFixedColumns = {"point", "key",     "status",
                                                      "code",  "message", "warnings"};

// The metrics that have bands, as long as the run has them, and what a line keeps of each band.
const std::array<std::string, 2> kBandedMetrics = {metric::kStepTimeS.name,
                                                   metric::kMemoryDeviceBytesMax.name};
constexpr std::array<const char*, 5> kBandKeys = {".band_low", ".band_centre", ".band_high",
                                                  ".band_group", ".band_held_out_share"};

std::array<Json, kBandKeys.size()> band_values(const MetricBand& band) {
  return {band.low, band.centre, band.high, band.group, band.held_out_share};
}

void add_band(Json& line, const PointRow& row, const std::string& name) {
  const auto band = std::ranges::find(row.bands, name, &MetricBand::metric);
  for (std::size_t i = 0; i < kBandKeys.size(); ++i) {
    line[name + kBandKeys.at(i)] =
        band == row.bands.end() ? Json(nullptr) : band_values(*band).at(i);
  }
}

void read_band(const Json& line, const std::string& name, PointRow& row) {
  const auto at = [&](std::size_t i) -> const Json& { return line.at(name + kBandKeys.at(i)); };
  if (at(0).is_null()) return;
  row.bands.push_back({.metric = name,
                       .low = at(0),
                       .centre = at(1),
                       .high = at(2),
                       .group = at(3),
                       .held_out_share = at(4)});
}

std::string dumped(const Json& line) {
  return line.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json metric_value(const std::vector<Metric>& metrics, const std::string& name) {
  const MetricValue* const value = value_of(metrics, name);
  if (value == nullptr) return nullptr;
  return std::visit([](const auto& v) { return Json(v); }, *value);
}

// Missing keys throw: the line has another format then.
PartHeader header_of(const Json& line) {
  return {.version = line.at("shardsim"),
          .sweep = line.at("sweep"),
          .num_points = line.at("points"),
          .columns = line.at("columns"),
          .skip = line.at("skip"),
          .command = line.at("command")};
}

std::string cell_of(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? csv_cell(value.get<std::string>()) : csv_cell(dumped(value));
}

MetricValue metric_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

}  // namespace

std::string_view name_of(PointStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}

std::string line_of(const PointRow& row, const std::vector<std::string>& columns) {
  Json line;
  line["point"] = row.point;
  line["key"] = row.key;
  line["status"] = name_of(row.status);
  line["code"] = row.code;
  line["message"] = row.message;
  line["warnings"] = row.warnings;
  for (std::size_t i = 0; i < columns.size(); ++i) line[columns[i]] = Json::parse(row.values[i]);
  for (const std::string& name : metric_names()) line[name] = metric_value(row.metrics, name);
  for (const std::string& name : kBandedMetrics) add_band(line, row, name);
  return dumped(line) + "\n";
}

std::string line_of(const PartHeader& header) {
  const Json line = {{"format", kSweepFormat},      {"format_version", kFormatVersion},
                     {"shardsim", header.version},  {"sweep", header.sweep},
                     {"points", header.num_points}, {"columns", header.columns},
                     {"skip", header.skip},         {"command", header.command}};
  return dumped(line) + "\n";
}

std::optional<PartLine> parse_line(std::string_view text) {
  const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return std::nullopt;
  try {
    if (line.contains("format")) {
      if (line.at("format") != kSweepFormat || line.at("format_version") != kFormatVersion) {
        return std::nullopt;
      }
      return PartLine{.header = header_of(line)};
    }
    return PartLine{.header = std::nullopt,
                    .point = line.at("point"),
                    .key = line.at("key"),
                    .status = line.at("status"),
                    .is_final = line.at("code") != kInternalCode};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string csv_of(std::string_view text) {
  std::string row;
  const Json line = Json::parse(text);
  for (const auto& [name, value] : line.items()) {
    if (!row.empty()) row += ',';
    row += cell_of(value);
  }
  return row + "\n";
}

std::string csv_header(const std::vector<std::string>& columns) {
  std::vector<std::string> names(kFixedColumns.begin(), kFixedColumns.end());
  names.insert(names.end(), columns.begin(), columns.end());
  names.insert(names.end(), metric_names().begin(), metric_names().end());
  for (const std::string& name : kBandedMetrics) {
    for (const char* key : kBandKeys) names.push_back(name + key);
  }
  std::string row;
  for (const std::string& name : names) row += (row.empty() ? "" : ",") + csv_cell(name);
  return row + "\n";
}

PointRow row_of(std::string_view text, const std::vector<std::string>& columns) {
  const Json line = Json::parse(text);
  PointRow row{.point = line.at("point"), .key = line.at("key")};
  const auto* const status =
      std::find(kStatusNames.begin(), kStatusNames.end(), line.at("status").get<std::string>());
  row.status = static_cast<PointStatus>(status - kStatusNames.begin());
  row.code = line.at("code");
  row.message = line.at("message");
  row.warnings = line.at("warnings");
  for (const std::string& column : columns) row.values.push_back(dumped(line.at(column)));
  for (const std::string& name : metric_names()) {
    if (!line.at(name).is_null()) row.metrics.push_back({name, metric_of(line.at(name))});
  }
  for (const std::string& name : kBandedMetrics) read_band(line, name, row);
  return row;
}

}  // namespace shardsim
