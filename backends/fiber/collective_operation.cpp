#include "backends/fiber/collective_operation.hpp"

#include <algorithm>

#include "backends/call.hpp"
#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/fiber_world.hpp"
#include "backends/trace_hash.hpp"

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
  even_ = false;
  counts_.clear();
  padding_at_.clear();
  disagreements_.clear();
  record_is_wrong_ = false;
  mended_ = !group.world().options().repairs.empty() && mend();
  expect(num_callers_);
}

// Whether there is a repair for it. Nobody waits for a member that is excused.
bool CollectiveOperation::mend() {
  const FiberWorld& world = group_->world();
  const CallRepair* const excuse =
      world.repair_of(CallRepair::Kind::excuse, group_->id(), sequence_);
  if (excuse != nullptr) {
    num_unwaited_ = --num_callers_;
    for (int member = 0; member < group_size_; ++member) {
      if (group_->world_rank(member) == excuse->rank) set_choice(member, kNoColor, 0);
    }
    return true;
  }
  return world.repair_of(CallRepair::Kind::accept, group_->id(), sequence_) != nullptr;
}

// Whether the call of this member counts as that of the others, whatever it is.
bool CollectiveOperation::accepts(int member, const CallRecord& record) {
  const CallRepair* const repair =
      group_->world().repair_of(CallRepair::Kind::accept, group_->id(), sequence_);
  if (repair != nullptr && repair->rank == group_->world_rank(member)) {
    record_is_wrong_ = num_arrived_ == 0;
    return true;
  }
  if (record_is_wrong_) record_ = record;
  record_is_wrong_ = false;
  return false;
}

std::uint64_t CollectiveOperation::label_hash_of(const char* label) const {
  return same_text(label, record_.label) ? label_hash_ : hash_label(label);
}

std::int64_t CollectiveOperation::trace_id() const { return trace_id_of(group_->id(), sequence_); }

bool CollectiveOperation::join(int member, const CallRecord& record) {
  const bool accepted = mended_ && accepts(member, record);
  if (!accepted && !same_call(record, record_)) {
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
  AllToAllCounts& splits = splits_[static_cast<std::size_t>(member)];
  splits.send.assign(send.begin(), send.end());
  splits.recv.assign(recv.begin(), recv.end());
  splits.site = site;
}

void CollectiveOperation::set_choice(int member, int color, int key) {
  choices_.resize(static_cast<std::size_t>(group_size_));
  choices_[static_cast<std::size_t>(member)] = {color, key};
}

Time CollectiveOperation::launch(Time start) {
  if (mended_) {
    buffers_.clear();
    return start;
  }
  shape_ = {.row = row_,
            .size = group_size_,
            .root = record_.root,
            .count = record_.count,
            .width = size_of(record_.dtype),
            .padding = record_.padding,
            .counts = counts_,
            .padding_at = padding_at_,
            .pairs = splits_};
  if (row_->path == CollectivePath::pairs && !check_splits()) return start;
  FiberWorld& world = group_->world();
  const DoubleTree* const tree = row_->reduces_to_all() ? group_->tree() : nullptr;
  const CollectivePrice price = world.network().collective(
      request_of(shape_, group_->layout(), tree, world.options().all_reduce_algorithm), start);
  algorithm_ = price.algorithm;
  even_ = moves_evenly(shape_, algorithm_);
  if (even_) even_moved_ = moved_by(shape_, algorithm_, tree, 0);
  if (world.options().has_data && row_->path != CollectivePath::none) {
    BufferWatch* const watch = world.buffer_watch();
    if (watch != nullptr) watch->moving(*this, group_->layout().members);
    combine();
    if (watch != nullptr) watch->moved(*this, group_->layout().members);
    // Members free their buffers once they have waited, whether others have or not.
    buffers_.clear();
  }
  return start + price.duration;
}

Moved CollectiveOperation::moved(int member) const {
  if (mended_) return {};
  if (even_) return even_moved_;
  const bool by_tree = algorithm_ == Algorithm::tree;
  return moved_by(shape_, algorithm_, by_tree ? group_->tree() : nullptr, member);
}

void CollectiveOperation::count_off_ring(int member) const {
  if (!mended_ && leaves_ring(shape_, algorithm_)) {
    add_off_ring(group_->off_ring(), shape_, member);
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
