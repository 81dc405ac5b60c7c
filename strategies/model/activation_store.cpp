#include "strategies/model/activation_store.hpp"

#include <utility>

#include "strategies/model/quantized_data.hpp"

namespace shardsim {

namespace {

constexpr DType kStored = DType::fp8_e4m3;

// Without a scale elements are those of one whole tensor whose factor is 1.
const RecipeRow& format_row(ActivationStore store) {
  return row_of(store == ActivationStore::e4m3 ? ScalingRecipe::tensorwise
                                               : ScalingRecipe::blockwise);
}

// That of rows which take so many bytes. REQUIRES: whole blocks.
std::int64_t width_of(const RecipeRow& row, std::int64_t bytes) {
  return row.block == 0 ? bytes : bytes / row.row_bytes(row.block) * row.block;
}

QuantizedForm form_of(const RecipeRow& row) {
  return {row, kE4m3, /*is_weight=*/false, CopyDirection::rows};
}

}  // namespace

std::int64_t block_of(ActivationStore store) {
  return store == ActivationStore::same ? 0 : format_row(store).block;
}

void narrow_to_stay(Runtime& runtime, ActivationStore store, Tensor& x) {
  if (store == ActivationStore::same || !x.defined()) return;
  const RecipeRow& row = format_row(store);
  Tensor stays = runtime.allocate(MemoryCategory::activations,
                                  with_last(x.shape(), row.row_bytes(last_dim(x))), kStored);
  const std::int64_t bytes = x.num_bytes() + stays.num_bytes();
  runtime.compute(memory_op("narrow_input", x.dtype(), bytes, KernelFamily::quantize),
                  [&] { encode(matrix_of(x), form_of(row), {}, nullptr, stays); });
  x = std::move(stays);
}

void widen_to_read(Runtime& runtime, ActivationStore how, DType dtype, Tensor& x) {
  if (how == ActivationStore::same || !is_quantized(x)) return;
  const RecipeRow& row = format_row(how);
  const std::int64_t width = width_of(row, last_dim(x));
  Tensor read = new_activation(runtime, with_last(x.shape(), width), dtype);
  const std::int64_t bytes = x.num_bytes() + read.num_bytes();
  runtime.compute(memory_op("widen_input", dtype, bytes, KernelFamily::quantize),
                  [&] { store(read, values_of(decode(x, form_of(row), num_rows(x), width))); });
  x = std::move(read);
}

}  // namespace shardsim
