#include "sim/explore/codes_json.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

namespace shardsim {

namespace {

struct Family {
  std::string_view prefix;
  const char* about;
};

constexpr std::array kFamilies = {
    Family{"E00", "text that cannot be read as JSON, or as the file that it should be"},
    Family{"E01", "keys and values of a scenario, each by itself"},
    Family{"E02", "settings of a scenario that do not go together"},
    Family{"E03", "limits: memory, ranks, numbers that become too large"},
    Family{"E04", "devices, networks and what NCCL can choose on them"},
    Family{"E05", "tensors and the data that operations get"},
    Family{"E06", "models and optimizers"},
    Family{"E07", "layouts, pipelines and how gradients are synchronized"},
    Family{"E08", "checkpoints"},
    Family{"E09", "the command line and the files that it names"},
    Family{"E10", "real processes, MPI and NCCL"},
    Family{"E12", "checking of programs, exploration and replay"},
    Family{"E13", "plans of many runs: sweeps, searches, comparisons, imports and exports"},
    Family{"E14", "reports"},
    Family{"E70", "bugs of shardsim itself"},
};
constexpr std::size_t kDigits = 4;

}  // namespace

const char* error_family(std::string_view code) {
  const bool is_error = code.size() == kDigits + 1 && code.front() == 'E' &&
                        std::all_of(code.begin() + 1, code.end(),
                                    [](char digit) { return digit >= '0' && digit <= '9'; });
  if (!is_error) return nullptr;
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family& family) { return code.starts_with(family.prefix); });
  return found == kFamilies.end() ? nullptr : found->about;
}

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
