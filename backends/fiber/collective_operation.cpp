#include "backends/fiber/collective_operation.hpp"

#include <algorithm>

#include "backends/call.hpp"
#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/fiber_world.hpp"

namespace shardsim {

void CollectiveOperation::open(FiberGroup& group, const CollectiveRow& row, std::int64_t sequence,
                               const CallRecord& record) {
  reopen(group, sequence, record);
  row_ = &row;
  label_hash_ = *record.label == '\0' ? 0 : hash_label(record.label);
  group_size_ = group.size();
  num_arrived_ = 0;
  num_callers_ = group.num_callers();
  num_unwaited_ = num_callers_;
  algorithm_ = Algorithm::ring;
  uniform_ = false;
  counts_.clear();
  padding_at_.clear();
  disagreements_.clear();
  expect(num_callers_);
}

std::uint64_t CollectiveOperation::label_hash_of(const char* label) const {
  return same_text(label, record_.label) ? label_hash_ : hash_label(label);
}

std::int64_t CollectiveOperation::trace_id() const {
  RollingHash hash;
  hash.add(group_->id());
  hash.add(sequence_);
  return static_cast<std::int64_t>(hash.value() >> 1U);
}

bool CollectiveOperation::join(int member, const CallRecord& record) {
  if (!same_call(record, record_)) {
    disagreements_.emplace_back(member, record);
    return false;
  }
  if (++num_arrived_ == num_callers_) group_->note_complete(*this);
  return true;
}

void CollectiveOperation::set_buffers(int member, const Tensor& output, const Tensor& input) {
  buffers_.resize(static_cast<std::size_t>(group_size_));
  buffers_[static_cast<std::size_t>(member)] = {output, input};
}

void CollectiveOperation::set_splits(int member, std::span<const std::int64_t> send,
                                     std::span<const std::int64_t> recv, CallSite site) {
  splits_.resize(static_cast<std::size_t>(group_size_));
  Splits& splits = splits_[static_cast<std::size_t>(member)];
  splits.send.assign(send.begin(), send.end());
  splits.recv.assign(recv.begin(), recv.end());
  splits.site = site;
}

void CollectiveOperation::set_choice(int member, int color, int key) {
  choices_.resize(static_cast<std::size_t>(group_size_));
  choices_[static_cast<std::size_t>(member)] = {color, key};
}

std::int64_t CollectiveOperation::chunk(int member) const {
  if (!counts_.empty()) return counts_[static_cast<std::size_t>(member)];
  return record_.count / group_size_;
}

std::int64_t CollectiveOperation::payload_chunk(int member) const {
  const std::int64_t begin = member * chunk(0);
  if (!padding_at_.empty()) {
    return chunk(0) - overlap(padding_at_, begin, begin + chunk(0));
  }
  // It stands at the end of the full buffer, so it is in the last chunks.
  const std::int64_t real = record_.count - record_.padding;
  return std::clamp<std::int64_t>(real - begin, 0, chunk(0));
}

std::int64_t CollectiveOperation::largest_chunk() const {
  if (row_->reduces_to_all()) return chunk_size(record_.count, group_size_, 0);
  std::int64_t largest = 0;
  for (const std::int64_t count : counts_) largest = std::max(largest, count);
  for (const Splits& splits : splits_) {
    for (const std::int64_t count : splits.send) largest = std::max(largest, count);
  }
  return counts_.empty() && splits_.empty() ? chunk(0) : largest;
}

Time CollectiveOperation::launch(Time start) {
  if (row_->path == CollectivePath::pairs && !check_splits()) return start;
  const std::int64_t width = size_of(record_.dtype);
  const CollectiveRequest request{.kind = *row_,
                                  .layout = &group_->layout(),
                                  .tree = row_->reduces_to_all() ? group_->tree() : nullptr,
                                  .algorithm = group_->world().options().all_reduce_algorithm,
                                  .bytes = record_.count * width,
                                  .largest_chunk = largest_chunk() * width};
  const CollectivePrice price = group_->world().network().collective(request, start);
  algorithm_ = price.algorithm;
  const bool even = row_->reduces_to_all()
                        ? algorithm_ == Algorithm::ring && record_.count % group_size_ == 0
                        : row_->path == CollectivePath::ring && counts_.empty();
  if (even && record_.padding == 0) {
    uniform_moved_ = {.payload = traffic(0, false)};
    uniform_ = true;
  }
  if (group_->world().options().has_data && row_->path != CollectivePath::none) {
    BufferWatch* const watch = group_->world().buffer_watch();
    if (watch != nullptr) watch->moving(*this, group_->layout().members);
    combine();
    if (watch != nullptr) watch->moved(*this, group_->layout().members);
    // Members free their buffers once they have waited, whether others have or not.
    buffers_.clear();
  }
  return start + price.duration;
}

Traffic CollectiveOperation::traffic(int member, bool payload_only) const {
  const std::int64_t width = size_of(record_.dtype);
  const int size = group_size_;
  const std::int64_t total = (record_.count - (payload_only ? record_.padding : 0)) * width;
  const auto part = [&](int index) {
    index = (index + size) % size;
    if (row_->in_place()) return chunk_size(total / width, size, index) * width;
    return (payload_only ? payload_chunk(index) : chunk(index)) * width;
  };
  switch (row_->path) {
    case CollectivePath::ring:
      if (algorithm_ == Algorithm::tree) {
        return group_->tree()->all_reduce_traffic(member, total / width, width);
      }
      return ring_traffic(*row_, size, total, part(member - 1), part(member), part(member + 1));
    case CollectivePath::chain:
      return chain_traffic(*row_, size, member, record_.root, total);
    case CollectivePath::star:
      return star_traffic(*row_, size, member, record_.root, total - part(record_.root),
                          part(member));
    case CollectivePath::pairs:
      return all_to_all_traffic(member);
    case CollectivePath::none:
      break;
  }
  return {};
}

Traffic CollectiveOperation::all_to_all_traffic(int member) const {
  const std::int64_t width = size_of(record_.dtype);
  Traffic traffic;
  const Splits& splits = splits_[static_cast<std::size_t>(member)];
  for (int peer = 0; peer < group_size_; ++peer) {
    if (peer == member) continue;
    const std::int64_t sent = splits.send[static_cast<std::size_t>(peer)];
    traffic.sent += sent * width;
    traffic.received += splits.recv[static_cast<std::size_t>(peer)] * width;
    if (sent > 0) ++traffic.messages;  // Nothing for a peer: no message.
  }
  return traffic;
}

FiberOperation::Moved CollectiveOperation::moved(int member) const {
  if (uniform_) return uniform_moved_;
  const Traffic all = traffic(member, false);
  if (record_.padding == 0) return {.payload = all};
  const Traffic payload = traffic(member, true);
  return {.payload = payload, .padding_sent = all.sent - payload.sent};
}

void CollectiveOperation::count_off_ring(int member) const {
  if (group_size_ == 1) return;
  if (row_->path == CollectivePath::pairs) return count_all_to_all(member);
  if (row_->path == CollectivePath::star) return count_star(member);
  if (algorithm_ == Algorithm::tree) {
    group_->off_ring().add_tree(group_size_, member, record_.count - record_.padding,
                                size_of(record_.dtype));
  }
}

void CollectiveOperation::count_star(int member) const {
  GroupLinks& links = group_->off_ring();
  const int root = record_.root;
  const bool gathers = row_->root == RootRole::target;
  // One message between the root and each other member.
  const auto count = [&](int other) {
    const std::int64_t elements = record_.padding == 0 ? chunk(other) : payload_chunk(other);
    const std::int64_t bytes = elements * size_of(record_.dtype);
    const int from = gathers ? other : root;
    const int to = gathers ? root : other;
    links.add(member == from, from, to, bytes);
  };
  if (member != root) return count(member);
  for (int other = 0; other < group_size_; ++other) {
    if (other != root) count(other);
  }
}

void CollectiveOperation::count_all_to_all(int member) const {
  GroupLinks& links = group_->off_ring();
  const std::int64_t width = size_of(record_.dtype);
  const Splits& splits = splits_[static_cast<std::size_t>(member)];
  links.expect_all_pairs(group_size_);
  for (int peer = 0; peer < group_size_; ++peer) {
    if (peer == member) continue;
    const std::int64_t sent = splits.send[static_cast<std::size_t>(peer)];
    const std::int64_t received = splits.recv[static_cast<std::size_t>(peer)];
    if (sent > 0) links.add(true, member, peer, sent * width);
    if (received > 0) links.add(false, peer, member, received * width);
  }
}

void CollectiveOperation::release() {
  if (--num_unwaited_ > 0) return;
  in_use_ = false;
  buffers_.clear();
  splits_.clear();
  choices_.clear();
  group_->free_collective(*this);
}

std::vector<int> CollectiveOperation::arrived() const {
  // Nobody keeps a list of who came: a member's next sequence number tells it.
  return group_->members_past(sequence_);
}

std::vector<int> CollectiveOperation::missing() const {
  if (complete()) return {};
  const std::vector<int> here = arrived();
  std::vector<int> away;
  for (int member = 0; member < group_size_; ++member) {
    if (!std::binary_search(here.begin(), here.end(), member)) away.push_back(member);
  }
  return away;
}

}  // namespace shardsim
