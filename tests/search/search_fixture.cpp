#include "tests/search/search_fixture.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {

std::vector<SmallSpace> small_spaces() {
  std::vector<SmallSpace> spaces;
  for (const nlohmann::json& space :
       nlohmann::json::parse(content_of("tests/search/small_spaces.json"))) {
    spaces.push_back({.name = space.at("name"),
                      .model = space.at("model").dump(),
                      .gpu = space.at("gpu"),
                      .gpus = space.at("gpus"),
                      .batch = space.at("batch"),
                      .overrides = space.at("overrides"),
                      .fixed = space.at("fixed")});
  }
  return spaces;
}

SmallSpace small_space(const std::string& name) {
  const std::vector<SmallSpace> spaces = small_spaces();
  return *std::ranges::find(spaces, name, &SmallSpace::name);
}

SearchRequest request_of(const SmallSpace& space, const std::string& file) {
  write(file, space.model);
  SearchRequest request;
  request.model = file;
  request.gpu = space.gpu;
  request.num_gpus = space.gpus;
  request.global_batch_size = space.batch;
  request.overrides = space.overrides;
  request.fixed = space.fixed;
  request.top = 5;
  request.front_within = 1e9;  // All of it.
  return request;
}

Searched searched(const SmallSpace& space, bool prunes, int jobs, Objective objective) {
  const TemporaryFolder folder;
  Searched result;
  result.request = request_of(space, folder / "model.json");
  result.request.objective = objective;
  if (objective == Objective::memory) result.request.front_within = 1.25;
  result.base = prepare_search(result.request);
  SearchHooks hooks;
  hooks.jobs = jobs;
  hooks.prunes = prunes;
  result.outcome = search(result.base, result.request, hooks);
  return result;
}

const Searched& simulated_in_full(const SmallSpace& space) {
  static std::map<std::string, Searched> done;
  const auto found = done.find(space.name);
  if (found != done.end()) return found->second;
  return done.emplace(space.name, searched(space, /*prunes=*/false)).first->second;
}

std::vector<std::string> words_of_points(const std::vector<SimulatedPoint>& points) {
  std::vector<std::string> words;
  for (const SimulatedPoint& point : points) {
    words.push_back(fmt::format("{} {} {} s {} B", point.index, words_of(point.candidate),
                                point.step_time_s, point.device_bytes));
  }
  return words;
}

}  // namespace shardsim::test
