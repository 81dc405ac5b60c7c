#include "strategies/training/shard_signature.hpp"

namespace shardsim {

namespace {

// Adds one pipeline rank's weights.
void add_stage(const ParallelPlan& plan, int stage, int shard,
               std::vector<std::int64_t>& signature) {
  const MeshShape& mesh = plan.options().mesh;
  const Model& model = *plan.stage(stage).model;
  const FlatLayout& layout = plan.layout(stage);
  std::int64_t summed_over_tp = 0;
  for (int chunk = 0; chunk < static_cast<int>(layout.chunks().size()); ++chunk) {
    const FlatChunk& flat = layout.chunk(chunk);
    const std::int64_t part = flat.padded / layout.num_shards();
    const std::int64_t begin = shard * part;
    const auto add_piece = [&](int parameter, std::int64_t first, std::int64_t count,
                               std::int64_t) {
      const ParameterSpec& spec = model.parameters()[static_cast<std::size_t>(parameter)];
      if (mesh.tp > 1 && spec.sum_over_tp) summed_over_tp += count;
      if (!spec.tied) return;
      signature.push_back(count);
      for (int tp = 0; tp < mesh.tp; ++tp) {
        signature.push_back(num_filling(spec, tp, first, count));
      }
    };
    layout.for_each_piece(chunk, begin, begin + part, add_piece);
    if (mesh.dp_replicate == 1) continue;
    for (int tp = 0; tp < mesh.tp; ++tp) {
      signature.push_back(flat.padding(tp, begin, begin + part));
    }
  }
  signature.push_back(summed_over_tp);
}

}  // namespace

std::vector<std::int64_t> shard_signature(const ParallelPlan& plan, int shard) {
  std::vector<std::int64_t> signature;
  if (plan.options().zero_stage == 0) return signature;
  for (int stage = 0; stage < plan.options().mesh.pp; ++stage) {
    add_stage(plan, stage, shard, signature);
  }
  return signature;
}

}  // namespace shardsim
