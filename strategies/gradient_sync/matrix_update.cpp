#include "strategies/gradient_sync/matrix_update.hpp"

#include <algorithm>

namespace shardsim {

bool joins_tensor_parts(const SyncPlan& plan) {
  return plan.muon && plan.muon->tensor_parallel != MuonTensorParallel::blockwise;
}

void for_each_matrix(const Model& model, const FlatLayout& layout, int chunk, std::int64_t begin,
                     std::int64_t end, const std::function<void(const ChunkMatrix&)>& visit) {
  for (const int parameter : layout.chunk(chunk).parameters) {
    const ParameterSpec& spec = spec_of(model, parameter);
    ChunkMatrix matrix;
    matrix.first = layout.place(parameter).offset;
    matrix.part.columns = spec.shape[spec.shape.rank() - 1];
    if (spec.is_split_over(SplitRanks::tensor)) {
      matrix.part.cut_axis = spec.split.axis;
      matrix.part.parts = spec.split.parts;
      matrix.copies = spec.split.copies;
    }
    for (const std::int64_t rows : spec.matrix_rows) {
      matrix.part.rows = rows;
      const std::int64_t behind = matrix.first + matrix.part.numel();
      if (matrix.first < end && behind > begin) visit(matrix);
      matrix.first = behind;
    }
  }
}

MatrixUpdate::MatrixUpdate(const SyncPlan& plan, Runtime& runtime, const Mesh& mesh, bool gathers)
    : plan_(plan), runtime_(runtime), mesh_(mesh), gathers_(gathers) {}

void MatrixUpdate::apply(const Owned& owned, double gradient_scale) const {
  const MuonOptions& options = *plan_.muon;
  const std::int64_t count = owned.master.numel();
  const Tensor update =
      runtime_.allocate(MemoryCategory::optimizer, {count}, owned.momentum.dtype());
  muon_direction(runtime_, options, update, owned.momentum, owned.gradient, gradient_scale);
  const Tensor directions = gathers_ ? gathered(owned, update) : update;
  const std::int64_t origin = gathers_ ? 0 : owned.begin;
  MuonRank rank{runtime_, options, iteration_dtype(plan_.weight_dtype, plan_.master_dtype)};
  for_each_matrix(
      *plan_.model, *plan_.layout, owned.chunk, owned.begin, owned.begin + count,
      [&](const ChunkMatrix& matrix) {
        const MatrixPart& part = matrix.part;
        rank.tensor = tensor_ranks_of(matrix);
        const Tensor direction = directions.view(matrix.first - origin, {part.rows, part.columns});
        keep(owned, update, matrix, orthogonalize(rank, direction, part));
      });
  const OptimizerOptions& shared = plan_.optimizer->options();
  muon_update(runtime_, owned.master, update, shared.learning_rate, shared.weight_decay);
}

// The ranks with the other parts of a matrix, each once; null where none of them is asked.
Communicator* MatrixUpdate::tensor_ranks_of(const ChunkMatrix& matrix) const {
  if (matrix.part.cut_axis < 0 || !joins_tensor_parts(plan_)) return nullptr;
  return mesh_.tp_parts_group(matrix.copies);
}

// Directions of the whole chunk, from all its owners.
Tensor MatrixUpdate::gathered(const Owned& owned, const Tensor& direction) const {
  const FlatChunk& flat = plan_.layout->chunk(owned.chunk);
  Tensor all = runtime_.allocate(MemoryCategory::comm, {flat.padded},
                                 iteration_dtype(plan_.weight_dtype, plan_.master_dtype));
  const Tensor own = all.view(owned.begin, {direction.numel()});
  const std::int64_t bytes = direction.num_bytes() + own.num_bytes();
  runtime_.compute(memory_op("muon_copy", all.dtype(), bytes),
                   [&] { store(own, values_of(direction)); });
  CallOptions options = flat.call_options(mesh_.tp());
  options.label = "muon directions";
  mesh_.replicas(plan_.kind).shard->all_gather(all, own, options).wait();
  return all;
}

// The part of a matrix's update that this rank owns, times its factor, in place of its direction.
void MatrixUpdate::keep(const Owned& owned, const Tensor& update, const ChunkMatrix& matrix,
                        const Orthogonalized& result) const {
  const std::int64_t from = std::max(matrix.first, owned.begin);
  const std::int64_t to =
      std::min(matrix.first + matrix.part.numel(), owned.begin + update.numel());
  const Tensor kept = update.view(from - owned.begin, {to - from});
  const Tensor mine = result.x.flat().view(from - matrix.first, {to - from});
  runtime_.compute(memory_op("muon_scale", kept.dtype(), kept.num_bytes() + mine.num_bytes()), [&] {
    for (std::int64_t i = 0; i < kept.numel(); ++i) kept.set(i, result.scale * mine.get(i));
  });
}

}  // namespace shardsim
