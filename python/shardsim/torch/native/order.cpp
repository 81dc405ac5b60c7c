#include "order.hpp"

#include <algorithm>
#include <utility>

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
                 const std::string& call, Fetch fetch) {
  const std::string text = call + " at " + python_site();  // It takes the interpreter's lock.
  const std::lock_guard guard(mutex_);
  const auto take = [&](const std::vector<at::Tensor>& tensors, bool writes) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.is_cuda()) check(tensor, writes, stream, group_stream);
    }
  };
  take(sent, false);
  take(results, true);
  const std::int64_t place = ++posted_[group_stream];
  Reached& group = streams_[group_stream];
  merge(group, streams_[stream]);
  group[group_stream] = place;
  works_[work] = group;
  if (fetch) pending_.push_back({group_stream, place, std::move(fetch)});
  const auto keep = [&](const std::vector<at::Tensor>& tensors, bool writes) {
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.is_cuda()) continue;
      std::vector<Use>& uses = uses_[tensor.storage().data()];
      // What the host has waited for is over for all streams.
      std::erase_if(uses,
                    [&](const Use& use) { return reaches(host_, use.group_stream, use.place); });
      // Works of a group end in their order, so the last use stands for those before it.
      const Range range = range_of(tensor);
      std::erase_if(uses, [&](const Use& use) {
        return use.group_stream == group_stream && use.writes == writes &&
               use.range.begin == range.begin && use.range.end == range.end;
      });
      uses.push_back({range, group_stream, place, writes, text});
    }
  };
  keep(sent, false);
  keep(results, true);
}

void Order::see(const Entry& entry) {
  Reached reached;
  {
    const std::lock_guard guard(mutex_);
    Reached& stream = streams_[entry.stream];
    switch (entry.kind) {
      case EntryKind::wait:
        merge(stream, works_[entry.number]);
        reached = stream;
        break;
      case EntryKind::record:
        events_[entry.number] = stream;
        return;
      case EntryKind::block:
        merge(stream, events_[entry.number]);
        reached = stream;
        break;
      case EntryKind::synchronize:
        merge(host_, stream);
        reached = host_;
        break;
      case EntryKind::synchronize_event:
        merge(host_, events_[entry.number]);
        reached = host_;
        break;
      default:
        return;
    }
  }
  fetch(reached);
}

void Order::finish(std::int64_t work) {
  Reached reached;
  {
    const std::lock_guard guard(mutex_);
    merge(host_, works_[work]);
    reached = host_;
  }
  fetch(reached);
}

void Order::fetch_work(std::int64_t work) {
  Reached reached;
  {
    const std::lock_guard guard(mutex_);
    reached = works_[work];
  }
  fetch(reached);
}

void Order::finish_all() {
  Reached reached;
  {
    const std::lock_guard guard(mutex_);
    merge(host_, posted_);
    reached = host_;
  }
  fetch(reached);
}

void Order::fetch_for(const std::vector<at::Tensor>& tensors, StreamNumber group_stream) {
  Reached reached;
  {
    const std::lock_guard guard(mutex_);
    for (const at::Tensor& tensor : tensors) {
      const auto found = uses_.find(tensor.storage().data());
      if (found == uses_.end()) continue;
      for (const Use& use : found->second) {
        if (!use.writes || use.group_stream != group_stream) continue;
        reached[group_stream] = std::max(reached[group_stream], use.place);
      }
    }
  }
  fetch(reached);
}

// Without the lock: to fetch is to wait for other ranks, and to write tensors.
void Order::fetch(const Reached& reached) {
  std::vector<Pending> ended;
  {
    const std::lock_guard guard(mutex_);
    std::vector<Pending> rest;
    for (Pending& pending : pending_) {
      const bool has_ended = reaches(reached, pending.group_stream, pending.place);
      (has_ended ? ended : rest).push_back(std::move(pending));
    }
    pending_ = std::move(rest);
  }
  for (const Pending& pending : ended) pending.fetch();
}

Order::Range Order::range_of(const at::Tensor& tensor) {
  const auto* const begin = static_cast<const char*>(tensor.storage().data()) +
                            tensor.storage_offset() * tensor.element_size();
  std::int64_t last = tensor.numel() == 0 ? -1 : 0;
  for (std::int64_t axis = 0; tensor.numel() > 0 && axis < tensor.dim(); ++axis) {
    last += (tensor.size(axis) - 1) * tensor.stride(axis);
  }
  return {begin, begin + (last + 1) * tensor.element_size()};
}

bool Order::reaches(const Reached& reached, StreamNumber stream, std::int64_t place) {
  const auto found = reached.find(stream);
  return found != reached.end() && found->second >= place;
}

bool Order::has_ended(const Use& use, StreamNumber stream) {
  return reaches(host_, use.group_stream, use.place) ||
         reaches(streams_[stream], use.group_stream, use.place);
}

// `group_stream`: of a call that is posted, which comes behind its group's earlier ones anyway.
void Order::check(const at::Tensor& tensor, bool writes, StreamNumber stream,
                  StreamNumber group_stream) {
  const auto found = uses_.find(tensor.storage().data());
  if (found == uses_.end()) return;
  const Range range = range_of(tensor);
  for (const Use& use : found->second) {
    if (use.range.end <= range.begin || range.end <= use.range.begin) continue;
    if (!(writes || use.writes) || use.group_stream == group_stream) continue;
    if (has_ended(use, stream)) continue;
    TORCH_CHECK(false, "shardsim: ", writes ? "a buffer is changed" : "a result is read", " that ",
                use.call, " still ", use.writes ? "writes" : "reads",
                ": its work has not been waited for on this stream");
  }
}

void Order::touch(const at::Tensor& tensor, bool writes, StreamNumber stream) {
  constexpr StreamNumber kNoGroup = -1;
  const std::lock_guard guard(mutex_);
  if (!uses_.empty()) check(tensor, writes, stream, kNoGroup);
}

void Order::forget(const void* address) {
  const std::lock_guard guard(mutex_);
  uses_.erase(address);
}

}  // namespace shardsim_torch
