#include "sim/accuracy/trace_operations.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

struct RoleRow {
  std::string_view word;
  KernelRole role;
};

// Names as NVIDIA's libraries, FlashAttention, Triton and PyTorch give them. Attention stands
// before products, since its kernels are written with CUTLASS too; so do the casts and copies whose
// names have a "gemm" in a template.
constexpr std::array<RoleRow, 34> kRoles = {{
    {"nccl", KernelRole::communication},
    {"nvshmem", KernelRole::communication},
    {"deep_ep::", KernelRole::communication},
    {"at::native::", KernelRole::bytes},
    {"fbgemm_gpu::", KernelRole::bytes},
    {"multi_tensor_apply", KernelRole::bytes},
    {"flash_fwd", KernelRole::attention},
    {"flash_bwd", KernelRole::attention},
    {"FlashAttn", KernelRole::attention},
    {"flash::", KernelRole::attention},
    {"fmha", KernelRole::attention},
    {"sdpa", KernelRole::attention},
    {"attention", KernelRole::attention},
    {"nvjet", KernelRole::product},
    {"gemm", KernelRole::product},
    {"Gemm", KernelRole::product},
    {"GEMM", KernelRole::product},
    {"cublas", KernelRole::product},
    {"splitKreduce", KernelRole::product},
    {"cutlass", KernelRole::product},
    {"xmma", KernelRole::product},
    {"elementwise", KernelRole::bytes},
    {"reduce_", KernelRole::bytes},
    {"softmax", KernelRole::bytes},
    {"norm", KernelRole::bytes},
    {"Norm", KernelRole::bytes},
    {"swiglu", KernelRole::bytes},
    {"rotary", KernelRole::bytes},
    {"rope", KernelRole::bytes},
    {"cross_entropy", KernelRole::bytes},
    {"copy", KernelRole::bytes},
    {"Copy", KernelRole::bytes},
    {"triton_poi", KernelRole::bytes},
    {"triton_red", KernelRole::bytes},
}};

// --- Operators ---------------------------------------------------------------------------------

enum class OperatorForm : std::uint8_t { matrices, batched, grouped, attention };

// `first`: the first operand of a product; queries, with keys behind them, of attention. `causal`:
// the input that says it.
struct OperatorRow {
  std::string_view name;
  OperatorForm form;
  KernelOperation operation;
  std::size_t first;
  std::size_t causal = 0;
  bool heads_come_first = false;  // (batch, heads, positions, size), else positions before heads.
};

constexpr auto kProduct = KernelOperation::matmul;
constexpr auto kForward = KernelOperation::attention_forward;
constexpr auto kBackward = KernelOperation::attention_backward;

// Places are those of PyTorch's aten/src/ATen/native/native_functions.yaml, and of the operators
// that the package flash_attn registers.
constexpr std::array<OperatorRow, 15> kOperators = {{
    {"aten::mm", OperatorForm::matrices, kProduct, 0},
    {"aten::addmm", OperatorForm::matrices, kProduct, 1},
    {"aten::_addmm_activation", OperatorForm::matrices, kProduct, 1},
    {"aten::_scaled_mm", OperatorForm::matrices, kProduct, 0},
    {"aten::bmm", OperatorForm::batched, kProduct, 0},
    {"aten::baddbmm", OperatorForm::batched, kProduct, 1},
    {"aten::_grouped_mm", OperatorForm::grouped, kProduct, 0},
    {"aten::_flash_attention_forward", OperatorForm::attention, kForward, 0, 8},
    {"aten::_flash_attention_backward", OperatorForm::attention, kBackward, 1, 11},
    {"aten::_scaled_dot_product_flash_attention", OperatorForm::attention, kForward, 0, 4, true},
    {"aten::_scaled_dot_product_flash_attention_backward", OperatorForm::attention, kBackward, 1,
     11, true},
    {"aten::_scaled_dot_product_cudnn_attention", OperatorForm::attention, kForward, 0, 6, true},
    {"aten::_scaled_dot_product_cudnn_attention_backward", OperatorForm::attention, kBackward, 1,
     14, true},
    {"flash_attn::_flash_attn_forward", OperatorForm::attention, kForward, 0, 5},
    {"flash_attn::_flash_attn_backward", OperatorForm::attention, kBackward, 1, 11},
}};

const OperatorRow* find_operator(std::string_view name) {
  const auto* const found = std::ranges::find(kOperators, name, &OperatorRow::name);
  return found == kOperators.end() ? nullptr : found;
}

bool has_sizes(const std::vector<std::int64_t>& dims, std::size_t count) {
  return dims.size() == count && std::ranges::none_of(dims, [](std::int64_t d) { return d == 0; });
}

// A scale of more than one element belongs to blocks.
bool has_block_scales(const OperatorRow& row, const TraceInputs& inputs) {
  constexpr std::size_t kScale = 2;
  if (row.name != "aten::_scaled_mm" || inputs.dims.size() <= kScale) return false;
  std::int64_t elements = 1;
  for (const std::int64_t size : inputs.dims[kScale]) elements *= size;
  return elements > 1;
}

std::string product_of_inputs(const OperatorRow& row, const TraceInputs& inputs,
                              TracedMatch& match) {
  const std::vector<std::int64_t>& a = inputs.dims[row.first];
  const std::vector<std::int64_t>& b = inputs.dims[row.first + 1];
  MeasuredProduct product;
  if (row.form == OperatorForm::matrices) {
    if (!has_sizes(a, 2) || !has_sizes(b, 2) || a[1] != b[0]) return "inputs are no two matrices";
    product = {.m = a[0], .n = b[1], .k = a[1]};
  } else if (row.form == OperatorForm::batched) {
    if (!has_sizes(a, 3) || !has_sizes(b, 3) || a[2] != b[1]) return "inputs are no batches";
    product = {.m = a[1], .n = b[2], .k = a[2], .batch = a[0]};
  } else {  // Rows of all groups, each of which has the mean number.
    if (!has_sizes(a, 2) || !has_sizes(b, 3) || a[1] != b[1]) {
      return "groups are not those of a product of rows by experts";
    }
    product = {.m = (a[0] + b[0] - 1) / b[0], .n = b[2], .k = a[1], .batch = b[0]};
  }
  match.work = work_of(product, match.precision);
  return "";
}

std::string attention_of_inputs(const OperatorRow& row, const TraceInputs& inputs,
                                TracedMatch& match) {
  if (inputs.values.size() <= row.causal) return "whether it is causal is unknown";
  const std::vector<std::int64_t>& q = inputs.dims[row.first];
  const std::vector<std::int64_t>& k = inputs.dims[row.first + 1];
  if (!has_sizes(q, 4) || !has_sizes(k, 4) || q[3] != k[3]) {
    return "inputs have no batch, heads and positions: sequences are packed";
  }
  const std::size_t heads = row.heads_come_first ? 1 : 2;
  const std::size_t positions = row.heads_come_first ? 2 : 1;
  const std::string& causal = inputs.values[row.causal];
  const MeasuredAttention attention{.batch = q[0],
                                    .heads = q[heads],
                                    .kv_heads = k[heads],
                                    .queries = q[positions],
                                    .keys = k[positions],
                                    .head_dim = q[3],
                                    .is_causal = causal == "True" || causal == "true"};
  if (!attention.is_causal && causal != "False" && causal != "false") {
    return "whether it is causal is unknown";
  }
  if (attention.is_causal && attention.queries != attention.keys) {
    return "causal with other numbers of keys than of queries";
  }
  match.work = work_of(attention, row.operation, match.precision.dtype);
  return "";
}

}  // namespace

KernelRole role_of_kernel(std::string_view name) {
  for (const RoleRow& row : kRoles) {
    if (name.find(row.word) != std::string_view::npos) return row.role;
  }
  return KernelRole::unknown;
}

const char* words_of(KernelRole role) {
  switch (role) {
    case KernelRole::product:
      return "a product";
    case KernelRole::attention:
      return "attention";
    case KernelRole::bytes:
      return "bound by its bytes, with no constant of its own";
    case KernelRole::communication:
      return "communication";
    case KernelRole::unknown:
      break;
  }
  return "its name is not known";
}

bool is_priced(KernelRole role) {
  return role == KernelRole::product || role == KernelRole::attention;
}

bool is_traced_operation(std::string_view name, KernelRole role) {
  const OperatorRow* const row = find_operator(name);
  if (row == nullptr) return false;
  return (row->form == OperatorForm::attention) == (role == KernelRole::attention);
}

TracedMatch match_of(std::string_view name, const TraceInputs& inputs) {
  const OperatorRow& row = *find_operator(name);
  TracedMatch match{.operation = row.operation};
  if (!inputs.are_recorded || inputs.dims.size() < row.first + 2 ||
      inputs.types.size() < row.first + 2) {
    match.why = "shapes are not in the trace: profile with record_shapes=True";
    return match;
  }
  const std::string& type = inputs.types[row.first];
  const KernelPrecision* const precision = find_precision(type);
  if (precision == nullptr) {
    match.why = fmt::format(
        "{} in {}, of which there is no constant",
        words_of(row.form == OperatorForm::attention ? KernelRole::attention : KernelRole::product),
        printable(type, 40));
    return match;
  }
  match.precision = {precision->dtype, has_block_scales(row, inputs)};
  if (row.form == OperatorForm::attention) {
    match.library = name.find("cudnn") != std::string_view::npos ? AttentionLibrary::cudnn
                                                                 : AttentionLibrary::flash2;
  }
  match.why = row.form == OperatorForm::attention ? attention_of_inputs(row, inputs, match)
                                                  : product_of_inputs(row, inputs, match);
  return match;
}

}  // namespace shardsim
