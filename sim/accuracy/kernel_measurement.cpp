#include "sim/accuracy/kernel_measurement.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace shardsim {

namespace {

struct OperationName {
  std::string_view name;
  KernelOperation operation;
  KernelFamily family;
};

// In the order of KernelOperation.
constexpr std::array<OperationName, kKernelOperations> kOperationNames = {{
    {"matmul", KernelOperation::matmul, KernelFamily::matrix_product},
    {"attention_forward", KernelOperation::attention_forward, KernelFamily::attention_forward},
    {"attention_backward", KernelOperation::attention_backward, KernelFamily::attention_backward},
    {"permutation", KernelOperation::permutation, KernelFamily::permutation},
    {"cross_entropy", KernelOperation::cross_entropy, KernelFamily::cross_entropy},
    {"amax", KernelOperation::amax, KernelFamily::amax},
    {"quantize", KernelOperation::quantize, KernelFamily::quantize},
}};

struct PrecisionName {
  std::string_view name;
  KernelPrecision precision;
  bool is_ours;  // Other programs write it so.
};

constexpr std::array<PrecisionName, 14> kKernelPrecisions = {{
    {"bf16", {DType::bf16, false}, true},
    {"fp16", {DType::fp16, false}, true},
    {"fp8", {DType::fp8_e4m3, false}, true},
    {"fp8_block", {DType::fp8_e4m3, true}, true},
    {"fp4", {DType::fp4_e2m1, false}, true},
    {"bfloat16", {DType::bf16, false}, false},
    {"BFloat16", {DType::bf16, false}, false},
    {"c10::BFloat16", {DType::bf16, false}, false},
    {"float16", {DType::fp16, false}, false},
    {"half", {DType::fp16, false}, false},
    {"c10::Half", {DType::fp16, false}, false},
    {"fp8_e4m3", {DType::fp8_e4m3, false}, false},
    {"c10::Float8_e4m3fn", {DType::fp8_e4m3, false}, false},
    {"nvfp4", {DType::fp4_e2m1, false}, false},
}};

KernelFamily family_of(KernelOperation operation) {
  return kOperationNames.at(static_cast<std::size_t>(operation)).family;
}

}  // namespace

std::string_view name_of(KernelOperation operation) {
  return kOperationNames.at(static_cast<std::size_t>(operation)).name;
}

std::string_view name_of(const KernelPrecision& precision) {
  return std::ranges::find(kKernelPrecisions, precision, &PrecisionName::precision)->name;
}

std::vector<std::string> kernel_precision_names() {
  std::vector<std::string> names;
  for (const PrecisionName& row : kKernelPrecisions) {
    if (row.is_ours) names.emplace_back(row.name);
  }
  return names;
}

std::vector<std::string> kernel_operation_names() {
  std::vector<std::string> names;
  for (const OperationName& row : kOperationNames) names.emplace_back(row.name);
  return names;
}

const KernelPrecision* find_precision(std::string_view name) {
  const auto* const found = std::ranges::find(kKernelPrecisions, name, &PrecisionName::name);
  return found == kKernelPrecisions.end() ? nullptr : &found->precision;
}

const KernelOperation* find_kernel_operation(std::string_view name) {
  const auto* const found = std::ranges::find(kOperationNames, name, &OperationName::name);
  return found == kOperationNames.end() ? nullptr : &found->operation;
}

ComputeOp work_of(const MeasuredProduct& product, const KernelPrecision& precision) {
  const auto& [m, n, k, batch, result_bytes, accumulates] = product;
  const std::int64_t operands = (m * k + k * n) * element_bits(precision.dtype) / 8;
  const std::int64_t results = m * n * result_bytes * (accumulates ? 2 : 1);
  KernelShape shape{KernelFamily::matrix_product, m, n, k, batch};
  shape.has_block_scales = precision.has_block_scales;
  return {"matmul",
          ComputeKind::matmul,
          precision.dtype,
          2 * m * n * k * batch,
          batch * (operands + results),
          shape};
}

// Forward reads queries, keys and values and writes the output. Backward also reads the output and
// its gradient, and writes three.
ComputeOp work_of(const MeasuredAttention& attention, KernelOperation operation, DType dtype) {
  const bool is_forward = operation == KernelOperation::attention_forward;
  const std::int64_t heads = attention.batch * attention.heads;
  const std::int64_t kv_heads =
      attention.kv_heads == 0 ? heads : attention.batch * attention.kv_heads;
  const std::int64_t of_queries = heads * attention.queries * attention.head_dim;
  const std::int64_t of_keys = kv_heads * attention.keys * attention.head_dim;
  const std::int64_t square = 2 * heads * attention.queries * attention.keys * attention.head_dim;
  const std::int64_t of_product = attention.is_causal ? square / 2 : square;
  return {"attention",
          ComputeKind::matmul,
          dtype,
          (is_forward ? 2 : 5) * of_product,
          (is_forward ? 2 : 4) * size_of(dtype) * (of_queries + of_keys),
          {family_of(operation), attention.queries, attention.keys, attention.head_dim, heads}};
}

ComputeOp work_of_bytes(std::int64_t bytes, KernelOperation operation, DType dtype) {
  return {"bytes", ComputeKind::memory_bound, dtype, 0, bytes, {family_of(operation)}};
}

double KernelTrace::matched_seconds() const {
  return std::accumulate(matched.begin(), matched.end(), 0.0);
}

double KernelTrace::coverage() const {
  const double computing = seconds - communication_seconds;
  return computing > 0.0 ? matched_seconds() / computing : 0.0;
}

}  // namespace shardsim
