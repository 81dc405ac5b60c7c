#include "sim/real/rank_report.hpp"

#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

using SortedJson = nlohmann::json;

// One list for both directions, so that none is forgotten in one of them.
constexpr std::pair<const char*, std::int64_t TrafficCounters::*> kCounters[] = {
    {"payload_sent", &TrafficCounters::payload_sent},
    {"payload_received", &TrafficCounters::payload_received},
    {"padding_sent", &TrafficCounters::padding_sent},
    {"scalar_sent", &TrafficCounters::scalar_sent},
    {"scalar_received", &TrafficCounters::scalar_received},
    {"messages", &TrafficCounters::messages},
    {"scalar_messages", &TrafficCounters::scalar_messages},
    {"calls", &TrafficCounters::calls},
    {"scalar_calls", &TrafficCounters::scalar_calls},
};

SortedJson object_of(const TrafficCounters& counters) {
  SortedJson object;
  for (const auto& [name, member] : kCounters) object[name] = counters.*member;
  return object;
}

TrafficCounters counters_of(const SortedJson& object) {
  TrafficCounters counters;
  for (const auto& [name, member] : kCounters) counters.*member = object.at(name);
  return counters;
}

// JSON has no infinity: it travels as null.
SortedJson array_of(const std::array<double, StateImage::kNumKinds>& errors) {
  SortedJson array = SortedJson::array();
  for (const double error : errors) array.push_back(error);
  return array;
}

double error_of(const SortedJson& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

}  // namespace

std::string to_text(const MeasuredRank& report) {
  SortedJson root;
  root["rank"] = report.rank;
  root["num_values"] = report.values.num_values;
  root["num_different"] = report.values.num_different;
  root["max_rel_error"] = array_of(report.values.max_rel_error);
  root["order_error"] = array_of(report.order_error);
  root["first_difference"] = report.values.first;
  root["peak_bytes"] = report.peak_bytes;
  root["host_peak_bytes"] = report.host_peak_bytes;
  root["simulated_peak_bytes"] = report.simulated_peak_bytes;
  root["simulated_host_peak_bytes"] = report.simulated_host_peak_bytes;
  for (const GroupReport& group : report.groups) {
    root["groups"].push_back({{"name", group.name},
                              {"measured", object_of(group.measured)},
                              {"simulated", object_of(group.simulated)},
                              {"measured_by_operation", group.measured_by_operation},
                              {"simulated_by_operation", group.simulated_by_operation}});
  }
  root["num_links"] = report.num_links;
  root["first_link_difference"] = report.first_link_difference;
  if (report.wire) root["wire"] = {report.wire->bytes, report.wire->messages};
  if (report.loopback_bytes) root["loopback_bytes"] = *report.loopback_bytes;
  root["replica_group"] = report.replica_group;
  root["hashes"] = report.hashes;
  root["num_expected_hashes"] = report.num_expected_hashes;
  return root.dump(-1, ' ', true, SortedJson::error_handler_t::replace);
}

MeasuredRank rank_report_of(const std::string& text) {
  MeasuredRank report;
  try {
    const SortedJson root = SortedJson::parse(text);
    report.rank = root.at("rank");
    report.values.num_values = root.at("num_values");
    report.values.num_different = root.at("num_different");
    for (std::size_t i = 0; i < StateImage::kNumKinds; ++i) {
      report.values.max_rel_error.at(i) = error_of(root.at("max_rel_error").at(i));
      report.order_error.at(i) = error_of(root.at("order_error").at(i));
    }
    report.values.first = root.at("first_difference");
    report.peak_bytes = root.at("peak_bytes");
    report.host_peak_bytes = root.at("host_peak_bytes");
    report.simulated_peak_bytes = root.at("simulated_peak_bytes");
    report.simulated_host_peak_bytes = root.at("simulated_host_peak_bytes");
    for (const SortedJson& group : root.value("groups", SortedJson::array())) {
      report.groups.push_back({group.at("name"), counters_of(group.at("measured")),
                               counters_of(group.at("simulated")),
                               group.at("measured_by_operation").get<SentByOperation>(),
                               group.at("simulated_by_operation").get<SentByOperation>()});
    }
    report.num_links = root.at("num_links");
    report.first_link_difference = root.at("first_link_difference");
    if (root.contains("wire")) {
      report.wire = SentTotals{root.at("wire").at(0), root.at("wire").at(1)};
    }
    if (root.contains("loopback_bytes")) {
      report.loopback_bytes = root.at("loopback_bytes").get<std::int64_t>();
    }
    report.replica_group = root.at("replica_group");
    report.hashes = root.at("hashes").get<std::vector<std::string>>();
    report.num_expected_hashes = root.at("num_expected_hashes");
  } catch (const SortedJson::exception& error) {
    throw Error(ExitCode::backend_failed, "E1070",
                std::string("a rank's report cannot be read: ") + error.what(),
                "all ranks must run the same version of shardsim");
  }
  return report;
}

}  // namespace shardsim
