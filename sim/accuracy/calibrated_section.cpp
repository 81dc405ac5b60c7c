#include "sim/accuracy/calibrated_section.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

namespace shardsim {

namespace {

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

// Numbers equal to the default are left out, unless the system gives them too.
void add_given(CalibratedTier& tier, const std::vector<NumberSource>& sources, const char* key,
               double value, double neutral) {
  const std::string field = "system.nccl." + tier.key + "." + key;
  const auto source =
      std::find_if(sources.begin(), sources.end(),
                   [&field](const NumberSource& each) { return each.field == field; });
  const bool has_source = source != sources.end();
  if (value == neutral && !has_source) return;
  tier.numbers.push_back({key, value, has_source ? source->source : "given without a source"});
}

CalibratedTier tier_of(const CalibrationReport& report, NetworkTier tier) {
  const bool near = tier == NetworkTier::inside;
  const NetworkSpec& network = report.given;
  const TierCorrection& given = near ? network.intra_node : network.inter_node;
  const auto fit = std::find_if(report.tiers.begin(), report.tiers.end(),
                                [tier](const TierCalibration& each) { return each.tier == tier; });
  const bool fitted = fit != report.tiers.end();
  CalibratedTier result{.key = near ? "intra_node" : "inter_node"};
  if (fitted) result.source = tables_of(report, *fit);
  constexpr const char* kFactor = "bandwidth_factor";
  constexpr const char* kLatency = "added_latency_us";
  const TierCorrection neutral;
  if (fitted && report.parts.bandwidth) {
    result.numbers.push_back({kFactor, fit->correction.bandwidth_factor, ""});
  } else {
    add_given(result, report.sources, kFactor, given.bandwidth_factor, neutral.bandwidth_factor);
  }
  if (fitted && report.parts.latency) {
    result.numbers.push_back({kLatency, fit->correction.added_latency_us, ""});
  } else {
    add_given(result, report.sources, kLatency, given.added_latency_us, neutral.added_latency_us);
  }
  return result;
}

std::string joined(const std::vector<std::string>& members) {
  std::string text;
  for (const std::string& member : members) text += (text.empty() ? "" : ",\n") + member;
  return text + "\n";
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

}  // namespace

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

}  // namespace shardsim
