#include "strategies/model/module_names.hpp"

#include <algorithm>
#include <string>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

namespace shardsim {

std::vector<std::size_t> places_of_modules(std::string_view words,
                                           std::span<const char* const> names, const char* code) {
  const auto refuse = [&](const std::string& message) {
    std::string all;
    for (const char* name : names) all += (all.empty() ? "" : ", ") + std::string(name);
    throw UsageError(code, message, "names are " + all + ", with commas between them");
  };
  std::vector<std::size_t> places;
  for (const std::string_view word : split_at(words, ',')) {
    const std::string name(word);
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      refuse(name.empty() ? "a name of a module is empty" : "there is no module \"" + name + "\"");
    }
    const auto place = static_cast<std::size_t>(found - names.begin());
    if (std::ranges::find(places, place) != places.end()) {
      refuse("the module " + name + " is there twice");
    }
    places.push_back(place);
  }
  return places;
}

}  // namespace shardsim
