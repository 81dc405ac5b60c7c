#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/nonzero.h>
#include <torch/library.h>

#include "device.hpp"
#include "host_call.hpp"
#include "ivalues.hpp"
#include "order.hpp"
#include "remote.hpp"
#include "signature.hpp"
#include "tensors.hpp"

// Operators of the virtual device: the meta device's kernels say the shapes of their results, whose
// memory is allocated here. Small whole numbers whose values are known are computed on the host.
namespace shardsim_torch {

namespace {

using c10::IValue;
using Stack = torch::jit::Stack;

// --- All others --------------------------------------------------------------------------------

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
    if (with_data()) {
      check_order();
      return run_on_host();
    }
    if (fill_by_mask()) return;
    if (can_run_on_host()) return run_on_host();
    choose_by_known_masks();
    refuse_unknown_sizes();
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

  void refuse_unknown_sizes() const {
    const bool counts =
        schema_.name() == "aten::nonzero" || schema_.name() == "aten::masked_select";
    TORCH_CHECK(!counts, "shardsim: ", schema_.name(), " at ", python_site(),
                " makes as many elements as a mask of the device chooses, and its values are not "
                "known: they were not given by the host, or are more than ",
                kSmallBytes / 1024, " KiB; let the host choose, or use torch.where");
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
  std::vector<IValue> call_meta(Change&& change) {
    // Kept until the results are: an operator with two out arguments returns references to them.
    std::vector<IValue> kept;
    for (const IValue& value : given_) {
      kept.push_back(value.isDevice() ? IValue(c10::Device(c10::kMeta)) : changed(value, change));
    }
    stack_.insert(stack_.end(), kept.begin(), kept.end());
    op_.callBoxedForDispatchKey(c10::DispatchKey::Meta, stack_);
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(schema_.returns().size());
    std::vector<IValue> made(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return made;
  }

  std::vector<IValue> made_on_meta() {
    using c10::DispatchKey;
    const bool is_foreach = schema_.name().rfind("aten::_foreach_", 0) == 0;
    const bool has_kernel = op_.hasKernelForDispatchKey(DispatchKey::Meta);
    if (!is_foreach || has_kernel) return call_meta(on_meta);
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
        resize_tensor(argument.toTensor(), made.toTensor().sizes());
      }
      return argument;
    }
    return changed(made, [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.is_meta()) return tensor;
      if (source && given_[*source].isTensor()) {
        return alias_of(given_[*source].toTensor(), tensor.sizes(), tensor.strides(),
                        tensor.storage_offset(), tensor.dtype());
      }
      return new_tensor(tensor.sizes(), tensor.strides(), tensor.scalar_type());
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
    if (moves) log_op(signature);
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
    std::vector<IValue> results = computed_on_host(op_, given_);
    if (!with_data()) log(results);
    for (IValue& result : results) stack_.push_back(std::move(result));
  }

  void check_order() const {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const bool is_written = writes(schema_.arguments()[i]);
      if (only_views() && !is_written) continue;
      for_each_tensor(given_[i], [&](const at::Tensor& tensor) {
        if (tensor.is_cuda()) Order::get().touch(tensor, is_written, current_stream());
      });
    }
  }
  // Nothing is read: all results lie in arguments.
  [[nodiscard]] bool only_views() const {
    for (std::size_t i = 0; i < schema_.returns().size(); ++i) {
      const auto* const alias = schema_.returns()[i].alias_info();
      if (alias == nullptr || alias->isWrite()) return false;
    }
    return !schema_.returns().empty();
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  Stack& stack_;
  std::vector<IValue> given_;
};

void run_any(const c10::OperatorHandle& op, Stack* stack) { Call(op, *stack).run(); }

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
         name == "aten::native_layer_norm" || name == "aten::native_group_norm" ||
         name == "aten::silu_backward" || name == "aten::mish_backward";
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
