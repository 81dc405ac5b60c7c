#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/hardware/nccl/platform.hpp"

#include "scenarios/source_text.hpp"
#include "sim/accuracy/calibration.hpp"

namespace shardsim {

namespace {

struct CalibratedNumber {
  std::string key;  // "bandwidth_factor"
  double value = 0.0;
  std::string source;  // The source of a given number; empty: it is fitted.
};

struct CalibratedTier {
  std::string key;  // "intra_node"
  std::vector<CalibratedNumber> numbers;
  std::string source;  // The tables of the fitted numbers; empty: none is fitted.
};

// system.nccl after a calibration: all that the given system has there, with the fitted numbers in
// their place. It can replace the old system.nccl without a loss.
struct CalibratedSection {
  std::string algorithms;  // Empty: all; likewise the protocols.
  std::string protocols;
  std::vector<CalibratedTier> tiers;  // Those with a number.
};

// A JSON string. Characters that are not plain text are shown as printable() shows them.
std::string json_quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : printable(text, 2000)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string tables_of(const CalibrationReport& report, const TierCalibration& tier) {
  std::string text = "shardsim calibrate:";
  for (const std::size_t i : tier.tables) {
    const PricedTable& priced = report.tables[i];
    const std::string file = std::filesystem::path(priced.table.source->name).filename().string();
    text += fmt::format("{} {} of {} ({})", i == tier.tables.front() ? "" : ",",
                        name_of(priced.layout.operation), words_of(priced.layout), file);
  }
  return text;
}

// Adds the fitted number, or the given one, which is left out if it equals the default, unless the
// system gives it too.
void add_number(CalibratedTier& tier, const std::vector<NumberSource>& sources, const char* key,
                std::optional<double> fitted, const Tracked<double>& value, double neutral) {
  if (fitted) {
    tier.numbers.push_back({key, *fitted, ""});
    return;
  }
  const std::string field = "system.nccl." + tier.key + "." + key;
  const auto source = std::ranges::find(sources, field, &NumberSource::field);
  const bool has_source = source != sources.end();
  if (value == neutral && !has_source) return;
  tier.numbers.push_back({key, value, has_source ? source->source : "given without a source"});
}

CalibratedTier tier_of(const CalibrationReport& report, NetworkTier tier) {
  const bool near = tier == NetworkTier::inside;
  const NetworkSpec& network = report.given;
  const TierCorrection& given = near ? network.intra_node : network.inter_node;
  const auto fit = std::ranges::find(report.tiers, tier, &TierCalibration::tier);
  const bool fitted = fit != report.tiers.end();
  CalibratedTier result{.key = near ? "intra_node" : "inter_node"};
  if (fitted) result.source = tables_of(report, *fit);
  const TierCorrection neutral;
  std::optional<double> factor;
  std::optional<double> latency;
  if (fitted && report.parts.bandwidth) factor = fit->correction.bandwidth_factor;
  if (fitted && report.parts.latency) latency = fit->correction.added_latency_us;
  add_number(result, report.sources, "bandwidth_factor", factor, given.bandwidth_factor,
             neutral.bandwidth_factor);
  add_number(result, report.sources, "added_latency_us", latency, given.added_latency_us,
             neutral.added_latency_us);
  return result;
}

std::string joined(const std::vector<std::string>& members) {
  return fmt::format("{}\n", fmt::join(members, ",\n"));
}

std::string tier_section(const CalibratedTier& tier, const std::string& indent) {
  std::vector<std::string> members;
  for (const CalibratedNumber& number : tier.numbers) {
    const std::string value = number.source.empty()
                                  ? fmt::format("{}", number.value)
                                  : fmt::format("{{\"value\": {}, \"source\": {}}}", number.value,
                                                json_quoted(number.source));
    members.push_back(fmt::format("{}  \"{}\": {}", indent, number.key, value));
  }
  if (!tier.source.empty()) {
    members.push_back(fmt::format("{}  \"source\": {}", indent, json_quoted(tier.source)));
  }
  return fmt::format("{0}\"{1}\": {{\n{2}{0}}}", indent, tier.key, joined(members));
}

CalibratedSection calibrated_section_of(const CalibrationReport& report) {
  const NetworkSpec& network = report.given;
  CalibratedSection section{.algorithms = network.nccl_algorithms,
                            .protocols = network.nccl_protocols};
  for (const NetworkTier tier : kNetworkTiers) {
    CalibratedTier result = tier_of(report, tier);
    if (!result.numbers.empty()) section.tiers.push_back(std::move(result));
  }
  return section;
}

// The JSON object, each line behind `indent`.
std::string object_text(const CalibratedSection& section, const std::string& indent) {
  std::vector<std::string> members;
  if (!section.algorithms.empty()) {
    members.push_back(indent + "  \"algorithms\": " + json_quoted(section.algorithms));
  }
  if (!section.protocols.empty()) {
    members.push_back(indent + "  \"protocols\": " + json_quoted(section.protocols));
  }
  for (const CalibratedTier& tier : section.tiers) {
    members.push_back(tier_section(tier, indent + "  "));
  }
  return indent + "{\n" + joined(members) + indent + "}\n";
}

// The same as --set flags, each on a line of its own behind a backslash; without sources.
std::string flags_text(const CalibratedSection& section) {
  std::string text;
  const auto add_list = [&text](const char* key, const std::string& list) {
    if (!list.empty()) text += fmt::format(" \\\n    --set \"system.nccl.{}={}\"", key, list);
  };
  add_list("algorithms", section.algorithms);
  add_list("protocols", section.protocols);
  for (const CalibratedTier& tier : section.tiers) {
    for (const CalibratedNumber& number : tier.numbers) {
      text +=
          fmt::format(" \\\n    --set system.nccl.{}.{}={}", tier.key, number.key, number.value);
    }
  }
  return text;
}

std::string size_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

// "a.txt:24"
std::string place_text(const NcclTestsTable& table) {
  return fmt::format("{}:{}", printable(table.source->name), position_of(table.place).line);
}

// The GPU's name in the words of both, "H100" of "NVIDIA H100 80GB HBM3".
std::string model_of(const std::string& gpu) {
  for (const char* name : {"A100", "A800", "GH200", "H100", "H200", "H800", "H20", "GB200", "GB300",
                           "B100", "B200", "B300"}) {
    if (gpu.find(name) != std::string::npos) return name;
  }
  return gpu;
}

void add_notes(std::string& text, const PricedTable& priced, const Cluster& cluster) {
  const NcclTestsTable& table = priced.table;
  const auto note = [&text](const std::string& words) { text += "    note: " + words + "\n"; };
  if (!table.complete) {
    note("it ends without its average bandwidth: was it cut off? Its rows are used as they are");
  }
  if (table.num_empty > 0) note(fmt::format("{} rows of 0 bytes are left out", table.num_empty));
  if (!table.gpu.empty() && model_of(table.gpu) != model_of(cluster.device.name)) {
    note(fmt::format("it was measured on {}, the system has {}", printable(table.gpu, 40),
                     printable(cluster.device.name, 40)));
  }
  const NcclSelection& selection = cluster.nccl->overrides.selection;
  if (!table.variables.empty() && selection.algorithms().empty() && selection.protocols().empty()) {
    note(
        fmt::format("a command before it has {}, which NCCL is not held to here: see "
                    "system.nccl.algorithms and --set",
                    printable(table.variables)));
  }
}

std::string tables_text(const CalibrationReport& report) {
  std::string text = "Tables\n";
  for (const PricedTable& priced : report.tables) {
    text += fmt::format("  {:<14}  {:<22}  {:>3} sizes, {} to {}\n    of {}\n",
                        name_of(priced.layout.operation), words_of(priced.layout),
                        priced.points.size(), size_text(priced.table.rows.front().size),
                        size_text(priced.table.rows.back().size), place_text(priced.table));
    add_notes(text, priced, report.cluster);
  }
  return text;
}

std::string correction_text(const FittedCorrection& correction) {
  return fmt::format("{:>9.4f}  {:>+9.2f}", correction.bandwidth_factor,
                     correction.added_latency_us);
}

std::string tier_text(const CalibrationReport& report, const TierCalibration& tier) {
  std::string text = fmt::format(
      "\n{:<46}  {:>9}  {:>9}\n",
      tier.tier == NetworkTier::inside ? "Within a node" : "Between nodes", "bandwidth", "latency");
  text += fmt::format("  {:<44}  {:>9}  {:>9}\n", "", "x NCCL's", "+ us");
  if (tier.given != FittedCorrection()) {
    text += fmt::format("  {:<44}  {}\n", "as the system has it", correction_text(tier.given));
  }
  text += fmt::format("  {:<44}  {}\n", "calibrated, all tables together",
                      correction_text(tier.correction));
  std::vector<std::string> names;
  for (const std::size_t i : tier.tables) {
    const TestedLayout& layout = report.tables[i].layout;
    names.push_back(fmt::format("{}, {}", name_of(layout.operation), words_of(layout)));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names.size() == 1) break;  // It says the same.
    text += fmt::format(
        "  {:<44}  {}\n", "alone: " + names[i],
        tier.errors[i].alone ? correction_text(*tier.errors[i].alone) : "  too few sizes");
  }
  text += fmt::format("  {:<44}  {:>9}  {:>9}  {:>9}\n", "mean error of the time, %", "before",
                      "after", "held out");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const CalibratedTable& errors = tier.errors[i];
    text += fmt::format("  {:<44}  {:>9.1f}  {:>9.1f}  {:>9.1f}\n", "  " + names[i],
                        100 * errors.before, 100 * errors.after, 100 * errors.held_out);
  }
  return text;
}

std::string use_text(const CalibrationReport& report) {
  const CalibratedSection section = calibrated_section_of(report);
  std::string text = "\nUse: write this into the scenario, as \"nccl\" of its \"system\":\n";
  text += object_text(section, "  ");
  if (!report.out.empty()) {
    return text + fmt::format("or run with --set \"system.nccl=$(cat {})\"\n", report.out);
  }
  return text + "or run with" + flags_text(section) + "\n";
}

}  // namespace

// NCCL's own model is nearer than this to machines that it knows.
constexpr double kLeastLikely = 0.67;
constexpr double kMostLikely = 1.5;

std::string calibration_text(const CalibrationReport& report) {
  std::string text =
      fmt::format("Calibration of {}, against NCCL {} as its own cost model has it\n\n",
                  printable(report.cluster.name, 200), name_of(report.cluster.nccl->version));
  text += tables_text(report);
  for (const TierCalibration& tier : report.tiers) {
    text += tier_text(report, tier);
    if (report.parts.latency && tier.correction.added_latency_us == kLeastAddedLatency) {
      text += fmt::format(
          "  note: measured latencies are lower still; {} us is the least there "
          "is\n",
          kLeastAddedLatency);
    }
    const double factor = tier.correction.bandwidth_factor;
    if (report.parts.bandwidth && (factor < kLeastLikely || factor > kMostLikely)) {
      text += fmt::format(
          "  note: {:.2f} x the bandwidth that {} should have: was another machine "
          "measured?\n",
          factor, printable(report.cluster.name, 40));
    }
  }
  text +=
      "\nHeld out: the sizes of each table in turn, every other one fitted to, the others "
      "predicted.\nSizes at which neither bytes nor latency dominate are not fitted to, and count "
      "in all errors.\n";
  return text + use_text(report);
}

std::string overlay_text(const CalibrationReport& report) {
  std::string text =
      "// The field \"nccl\" of a scenario's \"system\", made by `shardsim calibrate`. "
      "Mean error of the\n// time before, after, and at sizes not fitted to:\n";
  for (const TierCalibration& tier : report.tiers) {
    for (std::size_t i = 0; i < tier.tables.size(); ++i) {
      const PricedTable& priced = report.tables[tier.tables[i]];
      const CalibratedTable& errors = tier.errors[i];
      text += fmt::format("//   {} of {}: {:.1f} %, {:.1f} %, {:.1f} %\n",
                          name_of(priced.layout.operation), words_of(priced.layout),
                          100 * errors.before, 100 * errors.after, 100 * errors.held_out);
    }
  }
  return text + object_text(calibrated_section_of(report), "");
}

}  // namespace shardsim
