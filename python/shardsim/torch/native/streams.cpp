#include <atomic>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "device.hpp"
#include "order.hpp"
#include "remote.hpp"

namespace shardsim_torch {

namespace {

thread_local StreamNumber in_use = 0;
std::atomic<StreamNumber> next_stream = 1;
std::atomic<std::int64_t> next_event = 1;

c10::Device device() { return {c10::kCUDA, 0}; }

// An event of PyTorch's own code is its number.
std::int64_t number_of(const void* event) { return reinterpret_cast<std::intptr_t>(event); }

// The streams of each thread are its own: autograd sets those of forward for backward.
class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr c10::DeviceType static_type = c10::kCUDA;

  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  // Autograd has a thread for each device.
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const noexcept override { return stream_of(in_use); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return stream_of(new_stream());
  }
  c10::Stream getNewStream(c10::Device, int) const override { return stream_of(new_stream()); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return stream_of(set_current_stream(stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override {
    if (with_data()) synchronizeStream(stream);
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Log::get().add({.kind = EntryKind::synchronize, .stream = stream.id()});
  }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    shardsim_torch::synchronize_device();
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = reinterpret_cast<void*>(new_event());
    Log::get().add({.kind = EntryKind::record, .stream = stream.id(), .number = number_of(*event)});
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    Log::get().add({.kind = EntryKind::block, .stream = stream.id(), .number = number_of(event)});
  }
  // With data, what is asked for has ended.
  bool queryEvent(void* event) const override {
    if (with_data()) synchronizeEvent(event);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    Log::get().add({.kind = EntryKind::synchronize_event, .number = number_of(event)});
  }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  double elapsedTime(void*, void*, const c10::DeviceIndex) const override { return 1.0; }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard);

}  // namespace

StreamNumber current_stream() { return in_use; }

StreamNumber set_current_stream(StreamNumber stream) {
  const StreamNumber before = in_use;
  in_use = stream;
  return before;
}

StreamNumber new_stream() { return next_stream++; }
std::int64_t new_event() { return next_event++; }

void synchronize_device() {
  if (with_data()) return Order::get().finish_all();
  for (StreamNumber stream = next_stream - 1; stream >= 0; --stream) {
    Log::get().add({.kind = EntryKind::synchronize, .stream = stream});
  }
}

c10::Stream stream_of(StreamNumber number) {
  return c10::Stream(c10::Stream::UNSAFE, device(), number);
}

}  // namespace shardsim_torch
