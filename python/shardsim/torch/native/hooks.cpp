#include <new>

#include <ATen/detail/CUDAHooksInterface.h>

#include "device.hpp"

namespace shardsim_torch {

namespace {

// Says to PyTorch that there is CUDA. Autograd then runs backward in the streams of forward, and a
// number is a device where a script gives one.
class Hooks final : public at::CUDAHooksInterface {
 public:
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  int getNumGPUs() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  void deviceSynchronize(c10::DeviceIndex) const override { synchronize_device(); }
};

// PyTorch has made its own by now, without CUDA; it has no state, so another one takes its place.
const bool installed = [] {
  static_assert(sizeof(Hooks) == sizeof(at::CUDAHooksInterface));
  auto* const made = const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks());
  made->~CUDAHooksInterface();
  new (made) Hooks();
  return true;
}();

}  // namespace

}  // namespace shardsim_torch
