#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/nonzero.h>
#include <torch/library.h>

#include "device.hpp"
#include "signature.hpp"

// Operators of the virtual device: the meta device's kernels say the shapes of their results, whose
// memory is allocated here. Small whole numbers whose values are known are computed on the host.
namespace shardsim_torch {

namespace {

using c10::IValue;
using Stack = torch::jit::Stack;

// --- Tensors without operators -----------------------------------------------------------------

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           c10::dtype_or_default(dtype));
}

at::Tensor alias_of(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                    std::int64_t offset, caffe2::TypeMeta dtype) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(tensor.storage()), tensor.key_set(), dtype);
  made.unsafeGetTensorImpl()->set_storage_offset(offset);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

at::Tensor strided_view(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                        std::optional<std::int64_t> offset) {
  return alias_of(tensor, sizes, strides, offset.value_or(tensor.storage_offset()), tensor.dtype());
}

at::Tensor reshape_alias(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return strided_view(tensor, sizes, strides, tensor.storage_offset());
}

at::Tensor view(const at::Tensor& tensor, at::IntArrayRef asked) {
  const auto sizes = at::infer_size_dv(asked, tensor.numel());
  const auto strides = at::detail::computeStride(tensor.sizes(), tensor.strides(), sizes);
  TORCH_CHECK(strides,
              "view size is not compatible with input tensor's size and stride (at least one "
              "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
  return strided_view(tensor, sizes, *strides, tensor.storage_offset());
}

const at::Tensor& resize_to(const at::Tensor& tensor, at::IntArrayRef sizes,
                            std::optional<at::MemoryFormat>) {
  std::size_t bytes = tensor.element_size();
  for (const std::int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() < bytes) {
    storage->set_data_ptr(allocate(bytes));
    storage->set_nbytes(bytes);
  }
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage, std::int64_t offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(sizes, strides);
  return tensor;
}

// --- Values that the host reads ----------------------------------------------------------------

// What the host reads of a tensor without data: nothing is infinite, and nothing is zero by chance.
at::Scalar declared_value(at::ScalarType type) {
  if (type == at::kBool) return {false};
  return at::isFloatingType(type) ? at::Scalar(1.0) : at::Scalar(1);
}

at::Scalar local_scalar_dense(const at::Tensor& tensor) {
  Log::get().add({.kind = EntryKind::synchronize, .stream = current_stream()});
  if (is_known(tensor)) return on_host(tensor).item();
  Log::get().add_read(current_stream(), python_site());
  return declared_value(tensor.scalar_type());
}

void log_copy(const at::Tensor& to, const at::Tensor& from) {
  Signature signature("aten::copy_");
  signature.input(from);
  signature.output(to);
  signature.flag("to_host", to.is_cpu());
  signature.flag("from_host", from.is_cpu());
  Log::get().add_op(current_stream(), signature.text());
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  TORCH_CHECK(at::is_expandable_to(from.sizes(), to.sizes()), "The size of tensor a ", to.sizes(),
              " must match the size of tensor b ", from.sizes());
  log_copy(to, from);
  if (to.is_cpu() && !non_blocking) {
    Log::get().add({.kind = EntryKind::synchronize, .stream = current_stream()});
  }
  if (is_known(from) && is_small(to)) {
    on_host(to).copy_(on_host(from));
    set_known(to);
  } else if (to.is_cpu()) {
    Log::get().add_read(current_stream(), python_site());
    to.fill_(declared_value(to.scalar_type()));
  } else {
    set_unknown(to);
  }
  return to;
}

// --- Counts of tokens --------------------------------------------------------------------------

// Indices without data are uniform: their counts differ by one at most, and add up.
at::Tensor uniform_counts(const at::Tensor& indices, std::int64_t bins, at::ScalarType type,
                          const char* name) {
  at::Tensor counts = at::empty({bins}, at::kLong);
  auto* const values = counts.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < bins; ++i) {
    values[i] = indices.numel() / bins + (i < indices.numel() % bins ? 1 : 0);
  }
  at::Tensor made = empty({bins}, type, {}, {}, {}, {});
  if (is_small(made)) {
    on_host(made).copy_(counts);
    set_known(made);
  }
  Signature signature(name);
  signature.input(indices);
  signature.output(made);
  Log::get().add_op(current_stream(), signature.text());
  return made;
}

at::Tensor bincount(const at::Tensor& indices, const std::optional<at::Tensor>&,
                    std::int64_t minlength) {
  return uniform_counts(indices, std::max<std::int64_t>(minlength, 1), at::kLong, "aten::bincount");
}

at::Tensor histc(const at::Tensor& indices, std::int64_t bins, const at::Scalar&,
                 const at::Scalar&) {
  return uniform_counts(indices, bins, indices.scalar_type(), "aten::histc");
}

// --- All others --------------------------------------------------------------------------------

template <class Visit>
void for_each_tensor(const IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) visit(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) visit(*tensor);
    }
  }
}

// The same value with other tensors.
template <class Change>
IValue changed(const IValue& value, Change&& change) {
  if (value.isTensor()) return value.toTensor().defined() ? change(value.toTensor()) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional<at::Tensor>(change(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// The same storage in the meta device's terms.
at::Tensor on_meta(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_meta()) return tensor;
  if (tensor.is_cpu() && tensor.dim() == 0) return tensor;  // A number that the host gives.
  const auto elements = static_cast<std::int64_t>(tensor.storage().nbytes()) /
                        static_cast<std::int64_t>(tensor.element_size());
  return at::empty({elements}, tensor.options().device(c10::kMeta))
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

// Its result is whole, so it is as well known as its inputs.
bool compares(const std::string& name) {
  for (const char* word : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    if (name == std::string("aten::") + word) return true;
  }
  return false;
}

class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack& stack) : op_(op), schema_(op.schema()), stack_(stack) {
    const auto begin = stack.end() - static_cast<std::ptrdiff_t>(schema_.arguments().size());
    given_.assign(begin, stack.end());
    stack.erase(begin, stack.end());
  }

  void run() {
    if (can_run_on_host()) return run_on_host();
    if (fill_by_mask()) return;
    choose_by_known_masks();
    std::vector<IValue> made;
    if (!changes_only()) made = made_on_meta();
    std::vector<IValue> results;
    for (std::size_t i = 0; i < schema_.returns().size(); ++i) {
      results.push_back(made.empty() ? given_[*source_of(i)] : result_of(i, made[i]));
    }
    forget_what_is_written();
    log(results);
    for (IValue& result : results) stack_.push_back(std::move(result));
  }

 private:
  // CUDA, too, fills what one mask chooses with one number of the host in one kernel, whatever the
  // mask is.
  [[nodiscard]] bool fill_by_mask() {
    if (schema_.name() != "aten::_index_put_impl_") return false;
    const at::Tensor self = given_[0].toTensor();
    const at::Tensor value = given_[2].toTensor();
    if (!value.is_cpu() || value.numel() != 1 || given_[3].toBool()) return false;
    at::Tensor mask;
    std::int64_t before = 0;  // Axes that are taken whole.
    for (const std::optional<at::Tensor>& index : given_[1].toOptionalTensorVector()) {
      if (!index || !index->defined()) {
        before += mask.defined() ? 0 : 1;
        continue;
      }
      if (index->scalar_type() != at::kBool || mask.defined()) return false;
      mask = *index;
    }
    if (!mask.defined()) return false;
    while (before + mask.dim() < self.dim()) mask = mask.unsqueeze(-1);
    self.masked_fill_(mask, value.item());
    stack_.push_back(given_[0]);
    return true;
  }

  // Masks that choose elements become the indices of these: CUDA does so, too, and the host waits.
  void choose_by_known_masks() {
    for (IValue& value : given_) {
      if (!value.isOptionalTensorList()) continue;
      c10::List<std::optional<at::Tensor>> indices;
      for (const std::optional<at::Tensor>& index : value.toOptionalTensorVector()) {
        const bool is_mask = index && index->defined() && index->scalar_type() == at::kBool;
        if (!is_mask || !is_small(*index) || !is_known(*index)) {
          indices.push_back(index);
          continue;
        }
        for (const at::Tensor& chosen : at::nonzero(*index).unbind(1)) indices.push_back(chosen);
        Log::get().add({.kind = EntryKind::synchronize, .stream = current_stream()});
      }
      value = indices;
    }
  }

  void forget_what_is_written() const {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (writes(schema_.arguments()[i])) for_each_tensor(given_[i], set_unknown);
    }
    // Gradients without data are finite: a scaler of losses goes on.
    if (schema_.name() != "aten::_amp_foreach_non_finite_check_and_unscale_") return;
    const at::Tensor found = given_[1].toTensor();
    if (!is_small(found)) return;
    on_host(found).zero_();
    set_known(found);
  }

  template <class Change>
  std::vector<IValue> call(c10::DispatchKey key, c10::DeviceType device, Change&& change) {
    for (const IValue& value : given_) {
      stack_.push_back(value.isDevice() ? IValue(c10::Device(device)) : changed(value, change));
    }
    op_.callBoxedForDispatchKey(key, stack_);
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(schema_.returns().size());
    std::vector<IValue> made(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return made;
  }

  std::vector<IValue> made_on_meta() {
    using c10::DispatchKey;
    const bool is_foreach = schema_.name().rfind("aten::_foreach_", 0) == 0;
    const bool has_kernel = op_.hasKernelForDispatchKey(DispatchKey::Meta);
    if (!is_foreach || has_kernel) return call(DispatchKey::Meta, c10::kMeta, on_meta);
    // The meta device does not know all that make a tensor for each of a list.
    const bool reduces =
        schema_.name() == "aten::_foreach_norm" || schema_.name() == "aten::_foreach_max";
    return {changed(given_.front(), [&](const at::Tensor& tensor) {
      const at::Tensor like = on_meta(tensor);
      return reduces ? at::empty({}, like.options()) : at::empty_like(like);
    })};
  }

  // The argument that a result is, or lies in; none: it is new.
  [[nodiscard]] std::optional<std::size_t> source_of(std::size_t result) const {
    const auto* const alias = schema_.returns()[result].alias_info();
    if (alias == nullptr) return std::nullopt;
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const auto* const other = schema_.arguments()[i].alias_info();
      if (other != nullptr && other->beforeSets() == alias->beforeSets()) return i;
    }
    return std::nullopt;
  }

  // Lists of tensors that are changed in place keep their shapes, and the meta device has no
  // kernels for some of these operators.
  [[nodiscard]] bool changes_only() const {
    bool has_list = false;
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (schema_.arguments()[i].is_out()) return false;
      has_list = has_list || (writes(schema_.arguments()[i]) && given_[i].isTensorList());
    }
    for (std::size_t i = 0; i < schema_.returns().size(); ++i) {
      if (!source_of(i)) return false;
    }
    return has_list;
  }

  [[nodiscard]] IValue result_of(std::size_t number, const IValue& made) const {
    const std::optional<std::size_t> source = source_of(number);
    if (source && writes(schema_.arguments()[*source])) {
      const IValue& argument = given_[*source];
      if (made.isTensor() && argument.isTensor() &&
          argument.toTensor().sizes() != made.toTensor().sizes()) {
        resize_to(argument.toTensor(), made.toTensor().sizes(), {});
      }
      return argument;
    }
    return changed(made, [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.is_meta()) return tensor;
      if (source && given_[*source].isTensor()) {
        return alias_of(given_[*source].toTensor(), tensor.sizes(), tensor.strides(),
                        tensor.storage_offset(), tensor.dtype());
      }
      return empty_strided(tensor.sizes(), tensor.strides(), tensor.scalar_type(), {}, {}, {});
    });
  }

  void log(const std::vector<IValue>& results) const {
    bool moves = false;  // Views do nothing on the device.
    Signature signature(schema_.name(), schema_.overload_name());
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      moves = moves || writes(argument);
      for_each_tensor(given_[i], [&](const at::Tensor& tensor) {
        if (argument.is_out()) return signature.output(tensor);
        writes(argument) ? signature.change(tensor) : signature.input(tensor);
      });
      signature.argument(argument.name(), given_[i]);
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (source_of(i)) continue;
      for_each_tensor(results[i], [&](const at::Tensor& tensor) {
        signature.output(tensor);
        moves = true;
      });
    }
    if (moves) Log::get().add_op(current_stream(), signature.text());
  }

  // --- On the host -----------------------------------------------------------------------------

  [[nodiscard]] bool can_run_on_host() const {
    // These need no input, and have the same value in each type.
    const bool fills = schema_.name() == "aten::fill_" || schema_.name() == "aten::zero_";
    const bool takes_fractions = fills || compares(schema_.name());
    bool has_input = fills;
    bool can = true;
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const bool is_written = writes(schema_.arguments()[i]);
      for_each_tensor(given_[i], [&](const at::Tensor& tensor) {
        has_input = has_input || !is_written;
        can = can && (takes_fractions || !at::isFloatingType(tensor.scalar_type())) &&
              (is_written ? is_small(tensor) : is_known(tensor) && is_small(tensor));
      });
    }
    return has_input && can;
  }

  void run_on_host() {
    const std::vector<IValue> made = call(c10::DispatchKey::CPU, c10::kCPU, on_host);
    std::vector<IValue> results;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const std::optional<std::size_t> source = source_of(i);
      if (source && writes(schema_.arguments()[*source])) {
        for_each_tensor(given_[*source], set_known);
        results.push_back(given_[*source]);
        continue;
      }
      results.push_back(changed(made[i], [](const at::Tensor& tensor) {
        if (!tensor.defined()) return tensor;
        at::Tensor own = empty(tensor.sizes(), tensor.scalar_type(), {}, {}, {}, {});
        if (!is_small(own)) return own;
        on_host(own).copy_(tensor);
        set_known(own);
        return own;
      }));
    }
    log(results);
    for (IValue& result : results) stack_.push_back(std::move(result));
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  Stack& stack_;
  std::vector<IValue> given_;
};

void run_any(const c10::OperatorHandle& op, Stack* stack) { Call(op, *stack).run(); }

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", strided_view);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("view", view);
  library.impl("resize_", resize_to);
  library.impl("copy_", copy);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("_local_scalar_dense", local_scalar_dense);
  library.impl("bincount", bincount);
  library.impl("histc", histc);
}
TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_any>());
}

// Operators that are one kernel on CUDA, and many operators where a device has no kernel for them.
bool is_one_kernel(const std::string& name) {
  for (const char* begin : {"aten::_foreach_", "aten::_fused_", "aten::_amp_foreach_",
                            "aten::_chunk_cat", "aten::split_with_sizes_copy"}) {
    if (name.rfind(begin, 0) == 0) return true;
  }
  return name == "aten::convolution" || name == "aten::convolution_backward" ||
         name == "aten::native_layer_norm" || name == "aten::native_group_norm";
}

TORCH_LIBRARY_IMPL(aten, CUDA, library_of_kernels) {
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!is_one_kernel(op.name)) continue;
    const std::string name =
        op.name.substr(6) + (op.overload_name.empty() ? "" : "." + op.overload_name);
    library_of_kernels.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_any>());
  }
}

}  // namespace

}  // namespace shardsim_torch
