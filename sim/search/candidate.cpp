#include "sim/search/candidate.hpp"

#include <fmt/format.h>

namespace shardsim {

std::vector<std::string> overrides_of(const Candidate& candidate) {
  const auto set = [](const char* path, const auto& value) {
    return fmt::format("{}={}", path, value);
  };
  std::vector<std::string> overrides = {
      set("parallelism.tp", candidate.tp),
      set("parallelism.pp", candidate.pp),
      set("parallelism.cp", candidate.cp),
      set("parallelism.ep", candidate.ep),
      set("parallelism.vpp", candidate.vpp),
      set("parallelism.dp_replicate", candidate.dp_replicate),
      set("parallelism.sequence_parallel", candidate.sequence_parallel),
      set("parallelism.schedule", candidate.schedule),
      set("parallelism.zero_stage", candidate.zero_stage),
      set("training.micro_batch_size", candidate.micro_batch_size),
      set("training.recompute", to_string(candidate.recompute)),
  };
  return overrides;
}

std::string words_of(const Candidate& candidate) {
  std::string words;
  const auto add = [&words](const std::string& word) {
    words += (words.empty() ? "" : " ") + word;
  };
  const auto degree = [&add](const char* name, std::int64_t value) {
    if (value > 1) add(name + std::to_string(value));
  };
  degree("tp", candidate.tp);
  degree("cp", candidate.cp);
  degree("pp", candidate.pp);
  degree("ep", candidate.ep);
  if (candidate.dp_replicate > 1) {
    add(fmt::format("dp{}x{}", candidate.dp_replicate, candidate.dp_shard));
  } else {
    degree("dp", candidate.dp_shard);
  }
  if (candidate.zero_stage > 0) add(fmt::format("zero{}", candidate.zero_stage));
  if (candidate.pp > 1) add(std::string(candidate.schedule));
  degree("vpp", candidate.vpp);
  if (candidate.tp > 1 && !candidate.sequence_parallel) add("no-sp");
  add(fmt::format("mb{}", candidate.micro_batch_size));
  if (candidate.recompute != Recompute::none) add(to_string(candidate.recompute));
  return words;
}

MeshShape mesh_shape_of(const Candidate& candidate, RankOrder order) {
  return {.dp_shard = static_cast<int>(candidate.dp_shard),
          .dp_replicate = static_cast<int>(candidate.dp_replicate),
          .tp = static_cast<int>(candidate.tp),
          .pp = static_cast<int>(candidate.pp),
          .cp = static_cast<int>(candidate.cp),
          .ep = static_cast<int>(candidate.ep),
          .order = order};
}

}  // namespace shardsim
