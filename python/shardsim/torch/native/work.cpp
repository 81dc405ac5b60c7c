#include "work.hpp"

#include <chrono>
#include <utility>

#include <c10/core/StreamGuard.h>

#include "device.hpp"
#include "order.hpp"
#include "remote.hpp"

namespace shardsim_torch {

namespace {

using Tensors = std::vector<at::Tensor>;

// The log says when the device waits for it. Small values of others are there when it was waited
// for, as with NCCL: until then nothing waits for other ranks.
class LoggedWork final : public c10d::Work {
 public:
  // `group`: what fetches values, which must not go before.
  LoggedWork(c10::intrusive_ptr<c10d::Backend> group, std::int64_t number,
             StreamNumber group_stream, const Tensors& results, Fetch fetch)
      : group_(std::move(group)), number_(number), results_(results), fetch_(std::move(fetch)) {
    std::vector<c10::Device> devices;
    for (const at::Tensor& tensor : results) {
      if (tensor.is_cuda()) devices = {c10::Device(c10::kCUDA, 0)};
    }
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), devices);
    // Who waits for the future waits for an event in the group's stream.
    const c10::StreamGuard guard(stream_of(group_stream));
    future_->markCompleted(c10::IValue(results));
  }

  bool isCompleted() override {
    fetch();
    if (with_data()) Order::get().finish(number_);
    return true;
  }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override {
    synchronize();
    return true;
  }
  void synchronize() override {
    fetch();
    if (number_ == 0) return;
    Log::get().add({.kind = EntryKind::wait, .stream = current_stream(), .number = number_});
  }
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    fetch();
    // Its values may be read as soon as it is waited for, and that cannot be seen from here.
    if (with_data()) Order::get().fetch_work(number_);
    return future_;
  }

 private:
  void fetch() {
    if (const Fetch fetch = std::exchange(fetch_, nullptr)) fetch();
  }

  c10::intrusive_ptr<c10d::Backend> group_;
  std::int64_t number_;  // 0: it moves nothing on the device.
  Tensors results_;
  Fetch fetch_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> make_work(c10::intrusive_ptr<c10d::Backend> group,
                                         std::int64_t number, StreamNumber group_stream,
                                         const std::vector<at::Tensor>& results, Fetch fetch) {
  return c10::make_intrusive<LoggedWork>(std::move(group), number, group_stream, results,
                                         std::move(fetch));
}

}  // namespace shardsim_torch
