#include "sim/real/rank_report.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/model/layer.hpp"

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

constexpr std::pair<const char*, std::int64_t MeasuredRank::*> kFigures[] = {
    {"peak_bytes", &MeasuredRank::peak_bytes},
    {"host_peak_bytes", &MeasuredRank::host_peak_bytes},
    {"simulated_peak_bytes", &MeasuredRank::simulated_peak_bytes},
    {"simulated_host_peak_bytes", &MeasuredRank::simulated_host_peak_bytes},
    {"num_links", &MeasuredRank::num_links},
    {"num_expected_hashes", &MeasuredRank::num_expected_hashes},
};

// JSON has no infinity: it travels as null.
SortedJson array_of(const std::array<double, StateImage::kNumKinds>& errors) {
  SortedJson array = SortedJson::array();
  for (const double error : errors) array.push_back(error);
  return array;
}

double error_of(const SortedJson& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

// --- Images of state ---------------------------------------------------------------------------

constexpr std::array<const char*, StateImage::kNumKinds> kKindNames = {"gradient", "parameter",
                                                                       "optimizer state", "loss"};

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

bool same_place(const StateImage::Piece& a, const StateImage::Piece& b) {
  return a.step == b.step && a.kind == b.kind && a.state == b.state && a.parameter == b.parameter &&
         a.first == b.first && a.values.size() == b.values.size();
}

double largest_finite_value(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  return most;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (same_bits(a[i], b[i])) continue;
    const double difference = std::abs(a[i] - b[i]);
    most = std::isfinite(difference) ? std::max(most, difference)
                                     : std::numeric_limits<double>::infinity();
  }
  return most;
}

std::string describe(const StateImage::Piece& piece, std::size_t index, double actual,
                     const std::vector<std::string>& names) {
  std::string text = fmt::format("step {}, {}", piece.step, kKindNames.at(piece.kind));
  if (!piece.state.empty()) text += " " + piece.state;
  if (piece.kind != StateImage::loss) {
    text += fmt::format(" of {}, element {}", names.at(static_cast<std::size_t>(piece.parameter)),
                        piece.first + static_cast<std::int64_t>(index));
  }
  return text + fmt::format(": {} instead of {}", actual, piece.values[index]);
}

// Adds the differences of two pieces of one place.
void compare_pieces(const StateImage::Piece& actual, const StateImage::Piece& expected,
                    double floor, const std::vector<std::string>& names, ImageDifference& found) {
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    if (same_bits(actual.values[i], expected.values[i])) continue;
    ++found.num_different;
    if (found.first.empty()) found.first = describe(expected, i, actual.values[i], names);
  }
  const double difference = largest_difference(actual.values, expected.values);
  if (difference == 0.0) return;
  const double scale = std::max(largest_finite_value(expected.values), floor);
  double& error = found.max_rel_error.at(expected.kind);
  error =
      std::max(error, scale > 0.0 ? difference / scale : std::numeric_limits<double>::infinity());
}

}  // namespace

std::string to_text(const MeasuredRank& report) {
  SortedJson root;
  root["rank"] = report.rank;
  for (const auto& [name, member] : kFigures) root[name] = report.*member;
  root["num_values"] = report.values.num_values;
  root["num_different"] = report.values.num_different;
  root["max_rel_error"] = array_of(report.values.max_rel_error);
  root["order_error"] = array_of(report.order_error);
  root["first_difference"] = report.values.first;
  for (const GroupReport& group : report.groups) {
    root["groups"].push_back({{"name", group.name},
                              {"measured", object_of(group.measured)},
                              {"simulated", object_of(group.simulated)},
                              {"measured_by_operation", group.measured_by_operation},
                              {"simulated_by_operation", group.simulated_by_operation}});
  }
  root["first_link_difference"] = report.first_link_difference;
  if (report.wire) root["wire"] = {report.wire->bytes, report.wire->messages};
  if (report.loopback_bytes) root["loopback_bytes"] = *report.loopback_bytes;
  root["replica_group"] = report.replica_group;
  root["hashes"] = report.hashes;
  return root.dump(-1, ' ', true, SortedJson::error_handler_t::replace);
}

MeasuredRank rank_report_of(const std::string& text) {
  MeasuredRank report;
  try {
    const SortedJson root = SortedJson::parse(text);
    report.rank = root.at("rank");
    for (const auto& [name, member] : kFigures) report.*member = root.at(name);
    report.values.num_values = root.at("num_values");
    report.values.num_different = root.at("num_different");
    for (std::size_t i = 0; i < StateImage::kNumKinds; ++i) {
      report.values.max_rel_error.at(i) = error_of(root.at("max_rel_error").at(i));
      report.order_error.at(i) = error_of(root.at("order_error").at(i));
    }
    report.values.first = root.at("first_difference");
    for (const SortedJson& group : root.value("groups", SortedJson::array())) {
      report.groups.push_back({group.at("name"), counters_of(group.at("measured")),
                               counters_of(group.at("simulated")),
                               group.at("measured_by_operation").get<SentByOperation>(),
                               group.at("simulated_by_operation").get<SentByOperation>()});
    }
    report.first_link_difference = root.at("first_link_difference");
    if (root.contains("wire")) {
      report.wire = SentTotals{root.at("wire").at(0), root.at("wire").at(1)};
    }
    if (root.contains("loopback_bytes")) {
      report.loopback_bytes = root.at("loopback_bytes").get<std::int64_t>();
    }
    report.replica_group = root.at("replica_group");
    report.hashes = root.at("hashes").get<std::vector<std::string>>();
  } catch (const SortedJson::exception& error) {
    throw Error(ExitCode::backend_failed, "E1070",
                std::string("a rank's report cannot be read: ") + error.what(),
                "all ranks must run the same version of shardsim");
  }
  return report;
}

// --- Images of state ---------------------------------------------------------------------------

void StateImage::keep(std::int64_t step, const GradientSync& sync, StateKind kind, Kind kept_as) {
  sync.visit(kind, [&](const StatePiece& shown) {
    Piece piece{step, kept_as, std::string(shown.state), shown.parameter, shown.first, {}};
    piece.of_rank_alone = kind == StateKind::rank_state;
    piece.values = values_of(shown.values);
    pieces_.push_back(std::move(piece));
  });
}

void StateImage::gradients_ready(std::int64_t step, const GradientSync& sync) {
  keep(step, sync, StateKind::gradient, gradients);
}

void StateImage::step_ends(std::int64_t step, const GradientSync& sync,
                           std::optional<double> loss_of_step) {
  keep(step, sync, StateKind::parameter, parameters);
  keep(step, sync, StateKind::optimizer_state, optimizer_state);
  keep(step, sync, StateKind::rank_state, optimizer_state);
  if (loss_of_step) pieces_.push_back({step, loss, "", 0, 0, {*loss_of_step}});
}

ImageDifference compare_images(const StateImage& actual, const StateImage& expected,
                               const std::vector<std::string>& names) {
  ImageDifference found;
  std::map<std::pair<std::int64_t, int>, double> floors;
  for (const StateImage::Piece& piece : expected.pieces()) {
    found.num_values += static_cast<std::int64_t>(piece.values.size());
    double& floor = floors[{piece.step, piece.kind}];
    floor = std::max(floor, 1e-6 * largest_finite_value(piece.values));
  }
  const bool alike = std::equal(actual.pieces().begin(), actual.pieces().end(),
                                expected.pieces().begin(), expected.pieces().end(), same_place);
  if (!alike) {
    found.num_different = found.num_values;
    found.max_rel_error.fill(std::numeric_limits<double>::infinity());
    found.first = "this rank shows other tensors than in the simulation";
    return found;
  }
  for (std::size_t i = 0; i < expected.pieces().size(); ++i) {
    const StateImage::Piece& piece = expected.pieces()[i];
    compare_pieces(actual.pieces()[i], piece, floors[{piece.step, piece.kind}], names, found);
  }
  return found;
}

}  // namespace shardsim
