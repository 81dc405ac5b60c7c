#include "log.hpp"

#include "order.hpp"
#include "remote.hpp"

namespace shardsim_torch {

Log& Log::get() {
  static Log log;
  return log;
}

void Log::add(Entry entry) {
  if (with_data()) return Order::get().see(entry);
  const std::lock_guard guard(mutex_);
  if (is_on_) entries_.push_back(entry);
}

void Log::add_op(StreamNumber stream, const std::string& signature, std::int64_t place) {
  const std::lock_guard guard(mutex_);
  if (!is_on_) return;
  entries_.push_back(
      {.kind = EntryKind::op, .stream = stream, .row = ops_.row(signature), .number = place});
}

void Log::add_call(StreamNumber stream, const std::string& call, std::int64_t work,
                   StreamNumber group_stream) {
  const std::lock_guard guard(mutex_);
  if (!is_on_) return;
  entries_.push_back({.kind = EntryKind::call,
                      .stream = stream,
                      .row = calls_.row(call),
                      .number = work,
                      .amount = group_stream});
}

void Log::add_read(StreamNumber stream, const std::string& site) {
  const std::lock_guard guard(mutex_);
  if (!is_on_) return;
  entries_.push_back({.kind = EntryKind::read, .stream = stream, .row = sites_.row(site)});
}

void Log::add_mark(StreamNumber stream, const std::string& text) {
  const std::lock_guard guard(mutex_);
  if (!is_on_) return;
  entries_.push_back({.kind = EntryKind::mark, .stream = stream, .row = marks_.row(text)});
}

}  // namespace shardsim_torch
