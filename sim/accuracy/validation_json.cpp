#include <nlohmann/json.hpp>

#include "sim/kernel/version.hpp"

#include "sim/accuracy/bands_text.hpp"
#include "sim/accuracy/missing_columns.hpp"
#include "sim/accuracy/one_constant.hpp"
#include "sim/accuracy/residuals.hpp"
#include "sim/accuracy/validated_table.hpp"
#include "sim/run/band/band_coverage.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

// By quantity. `names_table`: the worst row is given with its table.
Json figures_json(std::span<const ValidatedTable> tables, bool headline, bool names_table,
                  const std::string& group = {}) {
  Json object = Json::object();
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<QuantityFigures> figures = figures_of(tables, i, headline, group);
    if (!figures) continue;
    const ErrorStatistics& errors = figures->errors;
    object[std::string(kQuantities.at(i).key)] = {
        {"rows", errors.rows},
        {"mean_absolute_error", errors.mean_absolute},
        {"median_absolute_error", errors.median_absolute},
        {"percentile_90_absolute_error", errors.percentile_90_absolute},
        {"bias", errors.bias},
        {"rank_correlation",
         errors.rank_correlation ? Json(*errors.rank_correlation) : Json(nullptr)},
        {"worst_row", (names_table ? figures->worst_table + " " : "") + figures->worst_row}};
  }
  return object;
}

Json parts_json(const StepParts& parts) {
  Json object = Json::object();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    object[std::string(kStepParts.at(i).key)] = parts.at(i);
  }
  return object;
}

Json traits_json(const RowTraits& traits) {
  Json object = Json::object();
  for (std::size_t i = 0; i < traits.size(); ++i) {
    const TraitValue& value = traits.at(i);
    object[std::string(kTraits.at(i).key)] = value.number ? Json(*value.number) : Json(value.text);
  }
  return object;
}

Json groups_json(const std::vector<TraitGroup>& groups) {
  Json list = Json::array();
  for (const TraitGroup& group : groups) {
    list.push_back({{"value", group.value},
                    {"rows", group.rows},
                    {"mean_absolute_error", group.mean_absolute},
                    {"bias", group.bias}});
  }
  return list;
}

// Step times of all tables by the traits that all have.
Json by_traits_json(std::span<const ValidatedTable> tables) {
  Json object = Json::object();
  for (std::size_t trait = 0; trait < kTraits.size(); ++trait) {
    if (!kTraits.at(trait).is_of_all) continue;
    object[std::string(kTraits.at(trait).key)] = groups_json(trait_groups(tables, trait));
  }
  return object;
}

Json located_json(const ValidatedTable& table) {
  Json list = Json::array();
  for (const ErrorGrowth& growth : located_residuals(table)) {
    list.push_back({{"by", kTraits.at(growth.trait).key},
                    {"explained", growth.explained ? Json(*growth.explained) : Json(nullptr)},
                    {"spread", growth.spread},
                    {"groups", groups_json(growth.groups)}});
  }
  return list;
}

Json largest_json(std::span<const ValidatedTable> tables) {
  Json list = Json::array();
  for (const StepResidual& each : largest_residuals(tables)) {
    const ValidatedTable& table = tables[each.table];
    const ValidatedRow& row = table.rows[each.row];
    const PredictedAndMeasured& pair = *row.quantities.at(kStepTime);
    list.push_back({{"table", table.name},
                    {"line", row.line},
                    {"label", row.label},
                    {"predicted", pair.predicted},
                    {"measured", pair.measured},
                    {"missing", pair.measured - pair.predicted},
                    {"error", pair.error()},
                    {"parts", row.parts ? parts_json(*row.parts) : Json(nullptr)}});
  }
  return list;
}

Json would_unlock_json(const ValidatedTable& table) {
  Json list = Json::array();
  for (const MissingColumns& missing : missing_columns(table)) {
    list.push_back(
        {{"needs", missing.needs}, {"rows", missing.lines.size()}, {"lines", missing.lines}});
  }
  return list;
}

Json row_of(const ValidatedRow& row) {
  Json object{{"line", row.line}, {"label", row.label}, {"source", row.source}};
  if (!row.apart.empty()) object["apart"] = row.apart;
  if (!row.refused.empty()) {
    object["not_represented"] = row.refused;
    if (!row.needs.empty()) object["needs"] = row.needs;
    return object;
  }
  object["fits"] = row.fits;
  object["device"] = row.setting.device;
  object["software"] = row.setting.software;
  object["ranks"] = row.setting.ranks;
  object["traits"] = traits_json(row.traits);
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<PredictedAndMeasured>& pair = row.quantities.at(i);
    if (!pair) continue;
    object[std::string(kQuantities.at(i).key)] = {
        {"predicted", pair->predicted}, {"measured", pair->measured}, {"error", pair->error()}};
  }
  if (row.parts) object["parts"] = parts_json(*row.parts);
  if (row.at_peak) {
    object["at_peak"] = {{"seconds", row.at_peak->seconds},
                         {"generation", row.at_peak->generation}};
  }
  return object;
}

Json group_of(const GroupCoverage& group) {
  return {{"group", group.group},
          {"band_of", group.band_group},
          {"rows", group.rows},
          {"tables", group.tables},
          {"inside_without_own_table", group.inside_without},
          {"mean_share_without_own_table", group.mean_share_without},
          {"share_of_own_band_without_own_table", group.share_of_own_band},
          {"width", group.width},
          {"bias", group.bias},
          {"rows_whose_band_leaves_the_model_out", group.outside}};
}

Json coverage_of(const BandCoverage& coverage) {
  Json tables = Json::object();
  for (const BandCoverage::Table& table : coverage.tables) {
    tables[table.name] = {{"rows", table.rows},
                          {"inside", table.inside},
                          {"inside_without_own_table", table.inside_without},
                          {"mean_error_of_centre_without_own_table",
                           table.centre_error_without / static_cast<double>(table.rows)}};
  }
  Json groups = Json::array();
  for (const GroupCoverage& group : coverage.groups) groups.push_back(group_of(group));
  return {{"rows", coverage.rows()},
          {"inside", coverage.inside()},
          {"inside_without_own_table", coverage.inside_without()},
          {"mean_share_without_own_table", coverage.mean_share_without()},
          {"mean_error_of_centre_without_own_table", coverage.mean_centre_error_without()},
          {"mean_error_of_model", coverage.mean_model_error()},
          {"share_without_own_table_but_largest", coverage.share_but_largest()},
          {"largest_table", coverage.largest().name},
          {"groups", groups},
          {"tables", tables}};
}

// The number of rows inside the bands around them; bands need two tables.
Json coverages_of(const std::vector<MeasuredError>& errors, const char* software) {
  Json object = Json::object();
  for (const QuantityInfo& quantity : kQuantities) {
    const BandCoverage coverage = band_coverage(errors, std::string(quantity.key), software);
    if (!coverage.tables.empty()) object[std::string(quantity.key)] = coverage_of(coverage);
  }
  return object;
}

Json one_constant_json(std::span<const ValidatedTable> tables, std::size_t which) {
  const std::optional<OneConstantFigures> figures = one_constant_figures(tables, which);
  if (!figures) return nullptr;
  Json constants = Json::object();
  for (const OneConstantFigures::Constant& each : figures->constants) {
    constants[each.generation] = {{"share_of_peak", each.share}, {"tables", each.tables}};
  }
  return {{"rows", figures->rows},
          {"mean_absolute_error", figures->formula},
          {"mean_absolute_error_of_predictions", figures->own},
          {"constants", constants}};
}

Json table_of(std::span<const ValidatedTable> tables, std::size_t which) {
  const ValidatedTable& table = tables[which];
  Json rows = Json::array();
  for (const ValidatedRow& row : table.rows) rows.push_back(row_of(row));
  Json groups = Json::object();
  for (const std::string& group : groups_of(table)) {
    groups[group] = figures_json({&table, 1}, true, false, group);
  }
  return {{"name", table.name},
          {"title", table.title},
          {"trust", table.trust},
          {"assuming", table.assuming},
          {"rows_in_file", table.rows_in_file},
          {"stride", table.stride},
          {"headline", figures_json({&table, 1}, true, false)},
          {"apart", figures_json({&table, 1}, false, false)},
          {"one_constant", one_constant_json(tables, which)},
          {"groups", groups},
          {"varies_with", located_json(table)},
          {"would_unlock", would_unlock_json(table)},
          {"rows", rows}};
}

}  // namespace

std::string validation_json(const std::vector<ValidatedTable>& tables) {
  Json list = Json::array();
  for (std::size_t which = 0; which < tables.size(); ++which) {
    list.push_back(table_of(tables, which));
  }
  const std::vector<MeasuredError> errors = measured_errors_of(tables);
  const Json root{
      {"schema_version", 1},
      {"shardsim_version", std::string(version())},
      {"overall", figures_json(tables, true, true)},
      {"by", by_traits_json(tables)},
      {"largest_residuals", largest_json(tables)},
      {"error_bands", coverages_of(errors, "any framework")},
      {"error_bands_without_framework", coverages_of(errors, "none")},
      {"left_out", {{"made_anew", left_out_words().made_anew}, {"kept", left_out_words().kept}}},
      {"tables", list}};
  return root.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsim
