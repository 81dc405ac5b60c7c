#include <nlohmann/json.hpp>

#include "sim/kernel/version.hpp"

#include "sim/accuracy/validated_table.hpp"
#include "sim/run/band/error_band.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

Json figures_of(const ErrorStatistics& figures, const std::string& worst) {
  Json object{{"rows", figures.rows},
              {"mean_absolute_error", figures.mean_absolute},
              {"median_absolute_error", figures.median_absolute},
              {"percentile_90_absolute_error", figures.percentile_90_absolute},
              {"bias", figures.bias}};
  object["rank_correlation"] =
      figures.rank_correlation ? Json(*figures.rank_correlation) : Json(nullptr);
  object["worst_row"] = worst;
  return object;
}

Json table_figures(const ValidatedTable& table, bool headline) {
  Json object = Json::object();
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<ErrorStatistics> figures = statistics_of(table, i, headline);
    if (!figures) continue;
    object[std::string(kQuantities.at(i).key)] =
        figures_of(*figures, worst_row_text(table, figures->worst, i));
  }
  return object;
}

Json row_of(const ValidatedRow& row) {
  Json object{{"line", row.line}, {"label", row.label}, {"source", row.source}};
  if (!row.apart.empty()) object["apart"] = row.apart;
  if (!row.refused.empty()) {
    object["not_represented"] = row.refused;
    return object;
  }
  object["fits"] = row.fits;
  object["device"] = row.setting.device;
  object["software"] = row.setting.software;
  object["ranks"] = row.setting.ranks;
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<PredictedAndMeasured>& pair = row.quantities.at(i);
    if (!pair) continue;
    object[std::string(kQuantities.at(i).key)] = {
        {"predicted", pair->predicted}, {"measured", pair->measured}, {"error", pair->error()}};
  }
  return object;
}

Json coverage_of(const BandCoverage& coverage) {
  Json tables = Json::object();
  for (const BandCoverage::Table& table : coverage.tables) {
    tables[table.name] = {{"rows", table.rows},
                          {"inside", table.inside},
                          {"inside_without_own_table", table.inside_without}};
  }
  return {{"rows", coverage.rows()},
          {"inside", coverage.inside()},
          {"inside_without_own_table", coverage.inside_without()},
          {"mean_share_without_own_table", coverage.mean_share_without()},
          {"widened_by", coverage.widening - 1.0},
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

Json table_of(const ValidatedTable& table) {
  Json rows = Json::array();
  for (const ValidatedRow& row : table.rows) rows.push_back(row_of(row));
  return {{"name", table.name},
          {"title", table.title},
          {"trust", table.trust},
          {"assuming", table.assuming},
          {"rows_in_file", table.rows_in_file},
          {"stride", table.stride},
          {"headline", table_figures(table, true)},
          {"apart", table_figures(table, false)},
          {"rows", rows}};
}

}  // namespace

std::string validation_json(const std::vector<ValidatedTable>& tables) {
  Json overall = Json::object();
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<ErrorStatistics> figures = overall_statistics(tables, i);
    if (!figures) continue;
    overall[std::string(kQuantities.at(i).key)] =
        figures_of(*figures, overall_worst_text(tables, figures->worst, i));
  }
  Json list = Json::array();
  for (const ValidatedTable& table : tables) list.push_back(table_of(table));
  const std::vector<MeasuredError> errors = measured_errors_of(tables);
  const Json root{{"schema_version", 1},
                  {"shardsim_version", std::string(version())},
                  {"overall", overall},
                  {"error_bands", coverages_of(errors, "any framework")},
                  {"error_bands_without_framework", coverages_of(errors, "none")},
                  {"tables", list}};
  return root.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsim
