#include "sim/explore/codes_json.hpp"

#include <nlohmann/json.hpp>

namespace shardsim {

std::string to_json(std::span<const CodeEntry> entries) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const CodeEntry& entry : entries) {
    all.push_back({{"code", entry.code},
                   {"meaning", entry.meaning},
                   {"causes", entry.causes},
                   {"fix", entry.fix},
                   {"example", entry.example}});
  }
  return all.dump(2) + "\n";
}

}  // namespace shardsim
