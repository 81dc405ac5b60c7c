#include "tests/search/search_fixture.hpp"

#include <map>

#include <fmt/format.h>

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {

namespace {

std::string llama(const std::string& more) {
  return R"({"family": "llama", "num_layers": 4, "hidden_size": 1024, "ffn_hidden_size": 2816,
             "num_attention_heads": 16, "num_query_groups": 8, "vocab_size": 32000)" +
         more + "}";
}

}  // namespace

std::vector<SmallSpace> small_spaces() {
  return {
      {.name = "dense, every schedule",
       .model = llama(R"(, "seq_len": 1024)"),
       .gpu = "h100",
       .gpus = 8,
       .batch = 16,
       .fixed = {"recompute=none,full", "micro_batch_size=1", "zero_stage=0,1,3"}},
      {.name = "experts",
       .model = llama(R"(, "seq_len": 512, "num_experts": 4, "num_experts_per_token": 2,
                          "moe_ffn_hidden_size": 1024, "moe_routing": "uniform")"),
       .gpu = "a100",
       .gpus = 8,
       .batch = 8,
       .fixed = {"schedule=none,1f1b,interleaved_1f1b", "recompute=none,selective",
                 "micro_batch_size=1"}},
      {.name = "long sequences",
       .model = llama(R"(, "seq_len": 32768)"),
       .gpu = "h200",
       .gpus = 16,
       .batch = 4,
       .fixed = {"schedule=none,1f1b,zb_h1", "zero_stage=0,1,2", "cp=2,4,8,16"}},
      {.name = "little memory",
       .model = R"({"family": "gpt2", "num_layers": 6, "hidden_size": 768, "ffn_hidden_size": 3072,
                    "num_attention_heads": 12, "vocab_size": 50257, "seq_len": 1024,
                    "max_position_embeddings": 1024, "tied_embeddings": true})",
       .gpu = "a100",
       .gpus = 8,
       .batch = 16,
       .overrides = {"system.device.memory_gib=2.3"},
       .fixed = {"schedule=none,gpipe,1f1b,looped_bfs", "micro_batch_size=1,2"}},
  };
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
