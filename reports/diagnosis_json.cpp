#include "reports/diagnosis_json.hpp"

#include <utility>

#include <nlohmann/json.hpp>

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

Json side_object(const DiagnosisSide& side) {
  return Json{{"ranks", side.ranks},
              {"action", side.action},
              {"file", side.site.file},
              {"line", side.site.line},
              {"function", side.site.function}};
}

Json diagnosis_object(const Diagnosis& diagnosis) {
  Json sides = Json::array();
  for (const DiagnosisSide& side : diagnosis.sides) sides.push_back(side_object(side));
  Json object{{"code", diagnosis.code},
              {"summary", diagnosis.summary},
              {"group", diagnosis.group},
              {"members", diagnosis.members},
              {"sequence", diagnosis.sequence},
              {"time_ps", diagnosis.time.picoseconds()},
              {"sides", std::move(sides)},
              {"cycle", diagnosis.cycle},
              {"last_matched", diagnosis.last_matched},
              {"hint", diagnosis.hint}};
  if (!diagnosis.schedule.empty()) object["schedule"] = diagnosis.schedule;
  if (!diagnosis.replay.empty()) object["replay"] = diagnosis.replay;
  return object;
}

}  // namespace

std::string to_json(const Diagnosis& diagnosis) {
  const Json object = diagnosis_object(diagnosis);
  return object.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsim
