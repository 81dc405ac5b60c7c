#include "order.hpp"

#include <algorithm>

#include "device.hpp"

namespace shardsim_torch {

Order& Order::get() {
  static auto* const made = new Order();  // Tensors go when the process ends.
  return *made;
}

void Order::merge(Reached& into, const Reached& from) {
  for (const auto& [stream, place] : from) into[stream] = std::max(into[stream], place);
}

void Order::post(std::int64_t work, StreamNumber stream, StreamNumber group_stream,
                 const std::vector<at::Tensor>& sent, const std::vector<at::Tensor>& results,
                 const std::string& call) {
  const std::string text = call + " at " + python_site();  // It takes the interpreter's lock.
  const std::lock_guard guard(mutex_);
  const auto take = [&](const std::vector<at::Tensor>& tensors, bool writes) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.is_cuda()) check(tensor.storage().data(), writes, stream);
    }
  };
  take(sent, false);
  take(results, true);
  const std::int64_t place = ++posted_[group_stream];
  Reached& group = streams_[group_stream];
  merge(group, streams_[stream]);
  group[group_stream] = place;
  works_[work] = group;
  const auto keep = [&](const std::vector<at::Tensor>& tensors, bool writes) {
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.is_cuda()) continue;
      std::vector<Use>& uses = uses_[tensor.storage().data()];
      // What this stream has waited for needs no memory, unless another stream has not.
      if (uses.size() > 16)
        std::erase_if(uses, [&](const Use& use) { return has_ended(use, stream); });
      uses.push_back({group_stream, place, writes, text});
    }
  };
  keep(sent, false);
  keep(results, true);
}

void Order::see(const Entry& entry) {
  const std::lock_guard guard(mutex_);
  switch (entry.kind) {
    case EntryKind::wait:
      return merge(streams_[entry.stream], works_[entry.number]);
    case EntryKind::record:
      events_[entry.number] = streams_[entry.stream];
      return;
    case EntryKind::block:
      return merge(streams_[entry.stream], events_[entry.number]);
    case EntryKind::synchronize:
      return merge(host_, streams_[entry.stream]);
    case EntryKind::synchronize_event:
      return merge(host_, events_[entry.number]);
    default:
      return;
  }
}

bool Order::has_ended(const Use& use, StreamNumber stream) {
  const auto reaches = [&](const Reached& reached) {
    const auto found = reached.find(use.group_stream);
    return found != reached.end() && found->second >= use.place;
  };
  return reaches(host_) || reaches(streams_[stream]);
}

void Order::check(const void* address, bool writes, StreamNumber stream) {
  const auto found = uses_.find(address);
  if (found == uses_.end()) return;
  for (const Use& use : found->second) {
    if (!(writes || use.writes) || has_ended(use, stream)) continue;
    TORCH_CHECK(false, "shardsim: ", writes ? "a buffer is changed" : "a result is read", " that ",
                use.call, " still ", use.writes ? "writes" : "reads",
                ": its work has not been waited for on this stream");
  }
}

void Order::touch(const at::Tensor& tensor, bool writes, StreamNumber stream) {
  const std::lock_guard guard(mutex_);
  if (!uses_.empty()) check(tensor.storage().data(), writes, stream);
}

void Order::forget(const void* address) {
  const std::lock_guard guard(mutex_);
  uses_.erase(address);
}

}  // namespace shardsim_torch
