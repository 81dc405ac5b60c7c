#include <cmath>
#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "sim/kernel/error.hpp"

#include "reports/html/parts.hpp"
#include "reports/stage_groups.hpp"
#include "reports/svg/drawing.hpp"

namespace shardsim::html {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kNanoseconds = 1e9;

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * kNanoseconds); }

template <class Items, class Convert>
Json array_of(const Items& items, Convert convert) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(convert(item));
  return array;
}

Json stage_json(const StageTime& stage) {
  return {{"stage", stage.stage},           {"rank", stage.rank},
          {"compute_s", stage.compute_s},   {"exposed_comm_s", stage.exposed_comm_s},
          {"bubble_s", stage.bubble_s},     {"host_s", stage.host_s},
          {"peak_bytes", stage.peak_bytes}, {"at_peak", stage.at_peak}};
}

// Pairs of indices into the stages.
Json groups_json(const std::vector<StageGroup>& groups) {
  return array_of(groups, [](const StageGroup& group) {
    return Json::array({group.first, group.last});
  });
}

Json curve_json(const MemoryCurve& curve) {
  Json bytes = Json::array();
  for (std::size_t c = 0; c < kNumMemoryCategories; ++c) {
    bytes.push_back(array_of(curve.points, [c](const auto& point) { return point.bytes.at(c); }));
  }
  return {{"stage", curve.stage},
          {"rank", curve.rank},
          {"time_ns",
           array_of(curve.points, [](const auto& point) { return nanoseconds(point.time_s); })},
          {"bytes", std::move(bytes)}};
}

// Begin and end are rounded, not the length: bars that touch go on touching.
Json row_json(const GanttRow& row) {
  const auto column = [&row](auto convert) { return array_of(row.bars, convert); };
  return {{"stage", row.stage},
          {"rank", row.rank},
          {"track", row.track},
          {"name", column([](const GanttBar& bar) { return bar.name; })},
          {"chunk", column([](const GanttBar& bar) { return bar.chunk; })},
          {"microbatch", column([](const GanttBar& bar) { return bar.microbatch; })},
          {"begin_ns", column([](const GanttBar& bar) { return nanoseconds(bar.begin_s); })},
          {"duration_ns", column([](const GanttBar& bar) {
             return nanoseconds(bar.end_s) - nanoseconds(bar.begin_s);
           })}};
}

Json roofline_json(const Roofline& roofline) {
  return {{"peak_flops_per_s", roofline.peak_flops_per_s},
          {"memory_bytes_per_s", roofline.memory_bytes_per_s},
          {"points", array_of(roofline.points, [](const RooflinePoint& point) {
             return Json{{"name", point.name},
                         {"flops", point.flops},
                         {"bytes", point.bytes},
                         {"time_s", point.time_s},
                         {"calls", point.calls}};
           })}};
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

constexpr int kGzipWindow = 15 + 16;  // The largest window; 16 asks for gzip's frame.
constexpr int kMemoryLevel = 9;

std::string gzip(std::string_view text) {
  z_stream stream{};
  const auto require = [&stream](bool is_good) {
    if (is_good) return;
    deflateEnd(&stream);
    throw Error(ExitCode::internal, "E1402", "zlib could not pack the data of the report");
  };
  require(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  // zlib's interface has no const; it does not write there.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast,cppcoreguidelines-pro-type-reinterpret-cast)
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());  // NOLINT(*-reinterpret-cast)
  stream.avail_out = static_cast<uInt>(packed.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const unsigned digit = group >> (18 - 6 * k) & 63U;
      text += i + k <= bytes.size() ? kDigits[digit] : '=';
    }
  }
  return text;
}

}  // namespace

std::string detail_json(const RunDetail& detail, double device_memory_bytes) {
  Json root;
  root["device_memory_bytes"] = device_memory_bytes;
  root["memory_categories"] =
      array_of(svg::kMemoryInks, [](const svg::Ink& ink) { return Json(ink.name); });
  root["stages"] = array_of(detail.stages, stage_json);
  root["stages_by_time"] = groups_json(groups_by_time(detail.stages));
  root["stages_by_memory"] = groups_json(groups_by_memory(detail.stages));
  root["axes"] = array_of(detail.axes, [](const AxisComm& axis) {
    return Json{{"axis", axis.axis},
                {"exposed_s", axis.exposed_s},
                {"hidden_s", axis.hidden_s},
                {"bytes_sent", axis.bytes_sent}};
  });
  root["memory"] = Json::array();
  for (const MemoryCurve& curve : detail.memory) {
    if (!curve.points.empty()) root["memory"].push_back(curve_json(curve));
  }
  root["schedule"] = {{"names", detail.schedule.names},
                      {"rows", array_of(detail.schedule.rows, row_json)}};
  root["traffic"] = {{"ranks_per_cell", detail.traffic.ranks_per_cell},
                     {"steps", detail.traffic.steps},
                     {"cells", detail.traffic.cells},
                     {"bytes", detail.traffic.bytes}};
  root["links"] = array_of(detail.links, [](const LinkUse& link) {
    return Json{{"tier", link.tier},
                {"bytes", link.bytes},
                {"bandwidth_gb_per_s", link.bandwidth_gb_per_s},
                {"busiest_share", link.busiest_share},
                {"busiest", link.busiest}};
  });
  root["roofline"] = roofline_json(detail.roofline);
  root["cost"] = {{"tokens_total", detail.cost.tokens_total},
                  {"days", detail.cost.days},
                  {"gpu_hours", detail.cost.gpu_hours},
                  {"usd_per_gpu_hour", detail.cost.usd_per_gpu_hour},
                  {"usd", detail.cost.usd}};
  return dump(root, -1);
}

std::string metric_json(const MetricValue& value) {
  return dump(std::visit([](const auto& v) { return Json(v); }, value), -1);
}

std::string pretty_json(const std::string& json) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) {
    throw Error(ExitCode::internal, "E1401", "the resolved scenario is not a JSON object");
  }
  return dump(root, 2);
}

std::string gzip_base64(std::string_view text) { return base64(gzip(text)); }

}  // namespace shardsim::html
