#include "strategies/sharded_optimizer/parallel_choice.hpp"

#include <array>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr std::array<NamedChoice, 8> kChoices = {{
    {"ddp", 0, 1, 1},
    {"zero1", 1, 1, 1},
    {"zero2", 2, 1, 1},
    {"zero3", 3, 1, 1},
    {"fsdp", 3, 1, 1},
    {"tensor_parallel", 0, 1, 0},
    {"pipeline_parallel", 0, 0, 1},
    {"hybrid_sharded", 0, 1, 1},
}};

std::string text_of(const ParallelChoice& choice) {
  return concat(choice.name, " with pp = ", choice.pp, ", tp = ", choice.tp,
                choice.cp > 1 ? ", cp = " + std::to_string(choice.cp) : "", ", dp = ", choice.dp,
                choice.ep > 1 ? ", ep = " + std::to_string(choice.ep) : "");
}

[[noreturn]] void refuse(const ParallelChoice& choice, int world_size, const std::string& why) {
  throw UsageError(
      "E0771",
      text_of(choice) + " does not fit a world of " + std::to_string(world_size) + " ranks: " + why,
      "choose positive sizes whose product is the number of ranks, or dp = -1");
}

}  // namespace

std::span<const NamedChoice> named_choices() { return kChoices; }

ParallelChoice choice_of(std::string_view name, int world_size) {
  if (name == "hybrid_sharded") return hybrid_sharded();
  std::string known;
  for (const NamedChoice& row : kChoices) {
    if (row.name == name) {
      return {.name = row.name,
              .zero_stage = row.zero_stage,
              .pp = row.pp == 0 ? world_size : row.pp,
              .tp = row.tp == 0 ? world_size : row.tp};
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw UsageError("E0772", "there is no sharded optimizer \"" + std::string(name) + "\"",
                   "use one of " + known);
}

ParallelChoice hybrid_sharded(int pp, int tp, int dp, int zero_stage) {
  return {.name = "hybrid_sharded",
          .zero_stage = zero_stage,
          .pp = pp,
          .tp = tp,
          .dp = dp,
          .order = RankOrder::dp_tp_pp};
}

MeshShape mesh_of(const ParallelChoice& choice, int world_size) {
  if (choice.pp < 1 || choice.tp < 1 || choice.cp < 1 || choice.ep < 1 || choice.dp == 0 ||
      choice.dp < -1) {
    refuse(choice, world_size, "a size is not positive");
  }
  const std::int64_t model_parts = std::int64_t{choice.pp} * choice.tp * choice.cp;
  if (choice.dp == -1 && world_size % model_parts != 0) {
    refuse(choice, world_size,
           concat(choice.cp > 1 ? "pp * tp * cp = " : "pp * tp = ", model_parts,
                  " does not divide it"));
  }
  const std::int64_t dp = choice.dp == -1 ? world_size / model_parts : choice.dp;
  if (dp * model_parts != world_size) {
    refuse(choice, world_size, "they are " + std::to_string(dp * model_parts) + " ranks");
  }
  if (choice.dp_replicate < 1 || dp % choice.dp_replicate != 0) {
    refuse(choice, world_size,
           concat("dp_replicate = ", choice.dp_replicate, " does not divide dp = ", dp));
  }
  const std::int64_t of_stage = dp / choice.dp_replicate * choice.cp * choice.tp;
  if (of_stage % choice.ep != 0) {
    refuse(choice, world_size,
           concat("ep = ", choice.ep, " does not divide the ", of_stage,
                  " ranks of a stage and replica"));
  }
  return {.dp_shard = static_cast<int>(dp) / choice.dp_replicate,
          .dp_replicate = choice.dp_replicate,
          .tp = choice.tp,
          .pp = choice.pp,
          .cp = choice.cp,
          .ep = choice.ep,
          .order = choice.order};
}

}  // namespace shardsim
