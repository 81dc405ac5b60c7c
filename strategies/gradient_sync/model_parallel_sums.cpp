#include "strategies/gradient_sync/model_parallel_sums.hpp"

#include <vector>

#include "strategies/gradient_sync/owned_state.hpp"

namespace shardsim {

namespace {

// The owned gradients of the parameters that `is_meant` picks.
template <class Predicate>
std::vector<StatePiece> owned_gradients(const Model& model, const GradientSync& sync,
                                        Predicate is_meant) {
  std::vector<StatePiece> found;
  sync.visit(StateKind::gradient, [&](const StatePiece& piece) {
    if (is_meant(spec_of(model, piece.parameter))) {
      found.push_back(piece);
    }
  });
  return found;
}

// Between `pieces`, one after the other, and `buffer`: within the device, or over the host link.
void copy_pieces(Runtime& runtime, const std::vector<StatePiece>& pieces, const Tensor& buffer,
                 bool to_buffer) {
  ComputeOp op{"copy_gradients", ComputeKind::memory_bound, buffer.dtype(), 0,
               2 * buffer.num_bytes()};
  if (pieces.front().on_host) {
    op.name = to_buffer ? "copy_to_device" : "copy_to_host";
    op.kind = ComputeKind::host_transfer;
    op.bytes = buffer.num_bytes();
  }
  runtime.compute(op, [&] {
    std::int64_t at = 0;
    for (const StatePiece& piece : pieces) {
      for (std::int64_t i = 0; i < piece.values.numel(); ++i, ++at) {
        to_buffer ? buffer.set(at, piece.values.get(i)) : piece.values.set(i, buffer.get(at));
      }
    }
  });
}

void sum_over_tensor_parallel(Runtime& runtime, Communicator& group, const char* label,
                              const std::vector<StatePiece>& pieces) {
  std::int64_t elements = 0;
  for (const StatePiece& piece : pieces) elements += piece.values.numel();
  if (elements == 0) return;
  const Tensor buffer =
      runtime.allocate(MemoryCategory::comm, {elements}, pieces.front().values.dtype());
  copy_pieces(runtime, pieces, buffer, true);
  group.all_reduce(buffer, ReduceOp::sum, {.label = label}).wait();
  copy_pieces(runtime, pieces, buffer, false);
}

}  // namespace

void sum_over_model_parallel(Runtime& runtime, Mesh& mesh, const Model& model,
                             const GradientSync& sync) {
  if (mesh.tp_group() != nullptr) {
    const auto is_partial = [](const ParameterSpec& spec) { return spec.sum_over_tp; };
    sum_over_tensor_parallel(runtime, *mesh.tp_group(), "sequence-parallel gradients",
                             owned_gradients(model, sync, is_partial));
  }
  for (const int copies : tensor_copies_of(model)) {
    const auto is_copied = [&](const ParameterSpec& spec) { return spec.split.copies == copies; };
    sum_over_tensor_parallel(runtime, *mesh.tp_copies_group(copies), "gradients of copied heads",
                             owned_gradients(model, sync, is_copied));
  }
  if (mesh.embedding_group() == nullptr) return;
  const auto is_tied = [](const ParameterSpec& spec) { return spec.tied; };
  for (const StatePiece& piece : owned_gradients(model, sync, is_tied)) {
    const ParameterSpec& spec = spec_of(model, piece.parameter);
    const std::int64_t padding = num_filling(spec, mesh.tp(), piece.first, piece.values.numel());
    OnDevice gradient(runtime, piece.on_host, MemoryCategory::grads, piece.values);
    mesh.embedding_group()
        ->all_reduce(gradient.tensor(), ReduceOp::sum,
                     {.label = "tied embedding gradient", .padding = padding})
        .wait();
    gradient.put_back();
  }
}

}  // namespace shardsim
