#include "sim/accuracy/calibration_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/hardware/nccl/platform.hpp"

#include "scenarios/source_text.hpp"
#include "sim/accuracy/calibrated_section.hpp"

namespace shardsim {

namespace {

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

bool corrects(const FittedCorrection& correction) {
  return correction.bandwidth_factor != 1.0 || correction.added_latency_us != 0.0;
}

std::string tier_text(const CalibrationReport& report, const TierCalibration& tier) {
  std::string text = fmt::format(
      "\n{:<46}  {:>9}  {:>9}\n",
      tier.tier == NetworkTier::inside ? "Within a node" : "Between nodes", "bandwidth", "latency");
  text += fmt::format("  {:<44}  {:>9}  {:>9}\n", "", "x NCCL's", "+ us");
  if (corrects(tier.given)) {
    text += fmt::format("  {:<44}  {}\n", "as the system has it", correction_text(tier.given));
  }
  text += fmt::format("  {:<44}  {}\n", "calibrated, all tables together",
                      correction_text(tier.correction));
  for (std::size_t i = 0; i < tier.tables.size(); ++i) {
    if (tier.tables.size() == 1) break;  // It says the same.
    const PricedTable& priced = report.tables[tier.tables[i]];
    const std::string name =
        fmt::format("{}, {}", name_of(priced.layout.operation), words_of(priced.layout));
    text += fmt::format(
        "  {:<44}  {}\n", "alone: " + name,
        tier.errors[i].alone ? correction_text(*tier.errors[i].alone) : "  too few sizes");
  }
  text += fmt::format("  {:<44}  {:>9}  {:>9}  {:>9}\n", "mean error of the time, %", "before",
                      "after", "held out");
  for (std::size_t i = 0; i < tier.tables.size(); ++i) {
    const PricedTable& priced = report.tables[tier.tables[i]];
    const CalibratedTable& errors = tier.errors[i];
    text += fmt::format(
        "  {:<44}  {:>9.1f}  {:>9.1f}  {:>9.1f}\n",
        fmt::format("  {}, {}", name_of(priced.layout.operation), words_of(priced.layout)),
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

bool at_floor(const CalibrationReport& report, const TierCalibration& tier) {
  return report.parts.latency && tier.correction.added_latency_us == kLeastAddedLatency;
}

}  // namespace

std::string calibration_text(const CalibrationReport& report) {
  std::string text =
      fmt::format("Calibration of {}, against NCCL {} as its own cost model has it\n\n",
                  printable(report.cluster.name, 200), name_of(report.cluster.nccl->version));
  text += tables_text(report);
  for (const TierCalibration& tier : report.tiers) {
    text += tier_text(report, tier);
    if (at_floor(report, tier)) {
      text += fmt::format(
          "  note: measured latencies are lower still; {} us is the least there "
          "is\n",
          kLeastAddedLatency);
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
