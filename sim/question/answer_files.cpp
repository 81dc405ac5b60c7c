#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/csv_tables.hpp"
#include "sim/search/layout_json.hpp"

#include "sim/question/answer.hpp"

namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

// By MachineFate.
constexpr std::array kFates = {"holds", "misses", "not_found", "does_not_fit", "no_layout"};

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json question_json(const Answer& answer) {
  Json json;
  json["tokens"] = answer.tokens;
  json["tokens_given"] = answer.question.tokens.has_value();
  json["deadline_days"] = or_null(answer.question.deadline_days);
  json["budget_usd"] = or_null(answer.question.budget_usd);
  return json;
}

Json row_json(const AnswerRow& row) {
  Json json = {{"gpu", row.machine.gpu},
               {"gpus", row.machine.num_gpus},
               {"system", row.system},
               {"usd_per_gpu_hour", or_null(row.machine.usd_per_gpu_hour)},
               {"fate", kFates.at(static_cast<std::size_t>(row.fate))},
               {"lost_to", row.lost_to},
               {"reason", row.reason},
               {"complete", row.is_complete},
               {"gap", or_null(row.gap)},
               {"candidates", row.num_candidates},
               {"simulated", row.num_simulated},
               {"memory_capacity_bytes", row.memory_capacity_bytes}};
  if (!row.least_that_did_not_fit.empty()) {
    json["least_that_did_not_fit"] = {{"layout", row.least_that_did_not_fit},
                                      {"bytes", row.least_bytes_not_fitting}};
  }
  if (!row.best) return json;
  add_point(json, *row.best);
  json["leaves_margin"] = !row.best->is_tight;
  add_bands(json, row.measured);
  add_training(json, row.training);
  return json;
}

}  // namespace

std::string to_json(const Answer& answer) {
  Json json = {{"schema_version", 1},
               {"model", answer.model},
               {"seq_len", answer.seq_len},
               {"global_batch_size", answer.global_batch_size},
               {"precision", answer.precision},
               {"memory_margin", answer.memory_margin},
               {"question", question_json(answer)},
               {"downtime_included", answer.least_goodput.has_value()},
               {"complete", answer.stop == SearchStop::none},
               {"interrupted", answer.stop == SearchStop::interrupt}};
  Json rows = Json::array();
  for (const AnswerRow& row : answer.rows) rows.push_back(row_json(row));
  json["rows"] = std::move(rows);
  json["assumptions"] = answer.assumptions;
  json["ignored"] = answer.ignored;
  json["warnings"] = answer.warnings;
  if (!answer.not_modelled.empty()) json["not_modelled"] = answer.not_modelled;
  return json.dump(2) + "\n";
}

std::string to_csv(const Answer& answer) {
  std::string text = fmt::format(
      "gpu,gpus,system,fate,lost_to,layout,{},goodput,days_low,days,days_high,gpu_hours,"
      "usd_per_gpu_hour,usd,device_bytes,gap,reason\n",
      metric::kTokensPerS.name);
  for (const AnswerRow& row : answer.rows) {
    const auto number = [](const std::optional<double>& value) {
      return value ? fmt::format("{}", *value) : std::string();
    };
    std::string lost_to;
    for (const std::string& name : row.lost_to) lost_to += (lost_to.empty() ? "" : " ") + name;
    text +=
        fmt::format("{},{},{},{},{},", csv_cell(row.machine.gpu), row.machine.num_gpus,
                    csv_cell(row.system), kFates.at(static_cast<std::size_t>(row.fate)), lost_to);
    if (row.best) {
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},", csv_cell(words_of(row.best->candidate)),
                          row.training.tokens_per_s.centre, number(row.training.goodput),
                          row.training.days.low, row.training.days.centre, row.training.days.high,
                          row.training.gpu_hours.centre, number(row.machine.usd_per_gpu_hour),
                          row.training.usd ? fmt::format("{}", row.training.usd->centre) : "",
                          row.best->device_bytes);
    } else {
      text += ",,,,,,," + number(row.machine.usd_per_gpu_hour) + ",,,";
    }
    text += number(row.gap) + "," + csv_cell(row.reason) + "\n";
  }
  return text;
}

}  // namespace shardsim
