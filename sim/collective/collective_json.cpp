#include <nlohmann/json.hpp>

#include "sim/kernel/version.hpp"

#include "sim/collective/collective_table.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

constexpr double kMicroseconds = 1e6;

Json place_of(const CollectiveSetting& setting, const TestedSize& row,
              const TrialResult::Place& place) {
  if (!place.seconds) return nullptr;
  const Bandwidths bandwidths = bandwidths_of(setting, row, *place.seconds);
  return {{"time_us", *place.seconds * kMicroseconds},
          {"algbw_gb_per_s", bandwidths.algorithm},
          {"busbw_gb_per_s", bandwidths.bus},
          {"wrong", or_null(place.wrong)}};
}

Json rows_of(const CollectiveSetting& setting, const CollectiveRun& run) {
  Json rows = Json::array();
  for (const TestedSize& row : run.rows) {
    Json object{{"size_bytes", row.size}, {"count", row.count}};
    object["out_of_place"] = place_of(setting, row, row.found.places[0]);
    object["in_place"] = place_of(setting, row, row.found.places[1]);
    object["simulated_time_us"] =
        row.simulated_seconds ? Json(*row.simulated_seconds * kMicroseconds) : Json(nullptr);
    object["sent_bytes"] = row.found.sent_bytes;
    object["simulated_sent_bytes"] = or_null(row.simulated_sent_bytes);
    rows.push_back(std::move(object));
  }
  return rows;
}

}  // namespace

std::string collective_json(const CollectiveSetting& setting, const std::string& backend,
                            const CollectiveRun& run) {
  Json root{{"schema_version", 1},
            {"shardsim_version", std::string(version())},
            {"operation", std::string(name_of(setting.operation))},
            {"backend", backend},
            {"library", run.library},
            {"ranks", setting.ranks()},
            {"datatype", setting.dtype_name},
            {"redop", setting.reduction_name},
            {"root", setting.root},
            {"iters", setting.iterations},
            {"warmup_iters", setting.warmup},
            {"check", setting.checks}};
  root["simulated_system"] = {{"name", setting.system},
                              {"nodes", setting.cluster.num_nodes},
                              {"gpus_per_node", setting.cluster.gpus_per_node}};
  root["rows"] = rows_of(setting, run);
  root["wrong_elements"] = setting.checks == 0 ? Json(nullptr) : Json(wrong_elements(run));
  root["avg_busbw_gb_per_s"] = average_bus_bandwidth(setting, run);
  root["sent_bytes"] = run.sent_bytes;
  root["wire_bytes"] = run.wire ? Json(run.wire->bytes) : Json(nullptr);
  root["wire_messages"] = run.wire ? Json(run.wire->messages) : Json(nullptr);
  root["times_mean_nothing"] = run.times_mean_nothing;
  root["notes"] = run.notes;
  return root.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsim
