#pragma once

#include <utility>

#include "backends/runtime.hpp"

// State that lives in host memory or on the device, by a flag, and is worked on in either case.
namespace shardsim {

[[nodiscard]] inline Tensor allocate_home(Runtime& runtime, bool on_host, MemoryCategory category,
                                          const Shape& shape, DType dtype) {
  return on_host ? runtime.allocate_on_host(category, shape, dtype)
                 : runtime.allocate(category, shape, dtype);
}

/// A tensor while it is worked on: itself where it lives on the device, else a copy there, which
/// `put_back` writes home. Each way is one transfer over the host link.
class OnDevice {
 public:
  OnDevice(Runtime& runtime, bool on_host, MemoryCategory category, Tensor home)
      : runtime_(runtime), on_host_(on_host), home_(std::move(home)) {
    if (!on_host) {
      here_ = home_;
      return;
    }
    here_ = runtime.allocate(category, home_.shape(), home_.dtype());
    runtime.copy_over_host_link("copy_to_device", here_, home_);
  }
  [[nodiscard]] const Tensor& tensor() const { return here_; }
  void put_back() {
    if (on_host_) runtime_.copy_over_host_link("copy_to_host", home_, here_);
  }

 private:
  Runtime& runtime_;
  bool on_host_;
  Tensor home_;
  Tensor here_;
};

}  // namespace shardsim
