#include "host_call.hpp"

#include <cstddef>
#include <utility>

#include "device.hpp"
#include "tensors.hpp"

namespace shardsim_torch {

namespace {

// An empty tensor may be a result whose size the kernel sets.
at::Tensor for_host(const at::Tensor& tensor) {
  const bool is_empty = tensor.is_cuda() && tensor.storage().nbytes() == 0;
  return is_empty ? at::empty(tensor.sizes(), tensor.options().device(c10::kCPU)) : on_host(tensor);
}

class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, const std::vector<IValue>& given)
      : op_(op), given_(given) {}

  std::vector<IValue> results() {
    torch::jit::Stack stack;
    for (const IValue& value : given_) {
      host_.push_back(value.isDevice() ? IValue(c10::Device(c10::kCPU)) : changed(value, for_host));
    }
    stack = host_;
    // Also kernels that are made of other operators.
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    take_written();
    std::vector<IValue> results;
    for (const IValue& value : stack) {
      results.push_back(changed(value, [this](const at::Tensor& made) { return on_device(made); }));
    }
    return results;
  }

 private:
  template <class Visit>
  void for_each_written(Visit&& visit) const {
    const auto& arguments = op_.schema().arguments();
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const auto* const alias = arguments[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      std::vector<at::Tensor> hosts;
      for_each_tensor(host_[i], [&](const at::Tensor& host) { hosts.push_back(host); });
      std::size_t at = 0;
      for_each_tensor(given_[i], [&](const at::Tensor& own) { visit(own, hosts[at++]); });
    }
  }

  void take_written() const {
    for_each_written([](const at::Tensor& own, const at::Tensor& host) {
      if (own.is_cuda() && own.sizes() != host.sizes()) {
        resize_tensor(own, host.sizes());
        on_host(own).copy_(host);
      }
      set_known(own);
    });
  }

  [[nodiscard]] at::Tensor on_device(const at::Tensor& made) const {
    if (!made.defined()) return made;
    at::Tensor own;
    for_each_written([&](const at::Tensor& given, const at::Tensor& host) {
      if (host.is_same(made)) own = given;
    });
    if (!own.defined()) own = view_of(made);
    if (own.defined()) return own;
    own = new_tensor(made.sizes(), made.strides(), made.scalar_type());
    if (!is_small(own)) return own;
    on_host(own).copy_(made);
    set_known(own);
    return own;
  }

  // What the host made of a tensor of the device without a copy; undefined: it is new.
  [[nodiscard]] at::Tensor view_of(const at::Tensor& made) const {
    at::Tensor view;
    if (made.numel() == 0) return view;
    const auto* const begin = static_cast<const char*>(made.data_ptr());
    for (const IValue& value : given_) {
      for_each_tensor(value, [&](const at::Tensor& tensor) {
        if (!tensor.is_cuda() || view.defined()) return;
        const auto* const storage = static_cast<const char*>(tensor.storage().data());
        if (begin < storage || begin >= storage + tensor.storage().nbytes()) return;
        view = alias_of(tensor, made.sizes(), made.strides(),
                        (begin - storage) / static_cast<std::ptrdiff_t>(made.element_size()),
                        made.dtype());
      });
    }
    return view;
  }

  const c10::OperatorHandle& op_;
  const std::vector<IValue>& given_;
  std::vector<IValue> host_;  // The arguments as the host's kernel gets them.
};

}  // namespace

std::vector<IValue> computed_on_host(const c10::OperatorHandle& op,
                                     const std::vector<IValue>& given) {
  return HostCall(op, given).results();
}

}  // namespace shardsim_torch
