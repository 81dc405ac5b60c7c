#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backends/collective_shape.hpp"
#include "backends/fiber/fiber_operation.hpp"
#include "backends/fold.hpp"
#include "backends/last_bit_errors.hpp"

namespace shardsim {

/// One collective: one rendezvous of all members. Nothing is priced or moved before all are there.
class CollectiveOperation final : public FiberOperation {
 public:
  /// See reopen().
  void open(FiberGroup& group, const CollectiveRow& row, std::int64_t sequence,
            const CallRecord& record);
  /// A member joins. False if its call differs from the first one: it is kept for the report, and
  /// the operation will never start.
  bool join(int member, const CallRecord& record);
  /// Keeps the member's buffers until the data are combined. Only in runs with data.
  void set_buffers(int member, const Tensor& output, const Tensor& input);
  /// Chunk sizes in elements, equal on all members; empty: equal chunks.
  void set_counts(std::span<const std::int64_t> counts) {
    counts_.assign(counts.begin(), counts.end());
  }
  /// Ranges of padding, equal on all members; empty: at the end.
  void set_padding_at(std::span<const ElementRange> ranges) {
    padding_at_.assign(ranges.begin(), ranges.end());
  }
  /// all_to_all: this member's row and column, and where it called.
  void set_splits(int member, std::span<const std::int64_t> send,
                  std::span<const std::int64_t> recv, CallSite site);
  /// split: this member's choice.
  void set_choice(int member, int color, int key);

  /// A member that is excused goes on to the next one; its call there says nothing of this one.
  void pass_over() { record_is_wrong_ = num_arrived_ == 0; }

  [[nodiscard]] const CollectiveRow& row() const { return *row_; }
  [[nodiscard]] bool complete() const { return num_arrived_ == num_callers_; }
  /// hash_label of `label`, which mostly is the first caller's: then it is not computed again.
  [[nodiscard]] std::uint64_t label_hash(const char* label) const {
    return label == record_.label ? label_hash_ : label_hash_of(label);
  }
  [[nodiscard]] Moved moved(int member) const override;
  void count_off_ring(int member) const override;
  [[nodiscard]] std::int64_t trace_id() const override;
  void release() override;
  [[nodiscard]] std::vector<int> missing() const override;
  [[nodiscard]] std::vector<int> arrived() const override;
  /// Calls that differ from record(), by member; empty when all agree.
  [[nodiscard]] const std::vector<std::pair<int, CallRecord>>& disagreements() const {
    return disagreements_;
  }
  /// Color and key of each member, for split.
  [[nodiscard]] const std::vector<SplitChoice>& choices() const { return choices_; }

 protected:
  Time launch(Time start) override;

 private:
  struct Buffers {
    Tensor output;
    Tensor input;
  };
  [[nodiscard]] std::uint64_t label_hash_of(const char* label) const;
  bool mend();
  bool accepts(int member, const CallRecord& record);
  bool check_splits();
  void combine();
  // The data that a member gives to the others.
  [[nodiscard]] Tensor given_by(std::size_t member, Carried how) const;
  void combine_all_to_all();
  void reduce_all(std::vector<std::byte>& result) const;
  void reduce_by_tree(std::vector<std::byte>& result) const;
  [[nodiscard]] std::vector<std::int64_t> chunk_offsets() const;

  const CollectiveRow* row_ = &collective::kBarrier;
  int group_size_ = 0;
  int num_callers_ = 0;  // Members that run: mostly all.
  int num_arrived_ = 0;
  int num_unwaited_ = 0;
  bool mended_ = false;           // By a CallRepair: no data move.
  bool record_is_wrong_ = false;  // It is of the member that the repair is about.
  Algorithm algorithm_ = Algorithm::ring;
  std::uint64_t label_hash_ = 0;  // Hash of the first caller's label.
  CollectiveShape shape_;         // Since it was launched.
  bool even_ = false;             // Every member moves the same; computed once.
  Moved even_moved_;
  std::vector<Buffers> buffers_;
  std::vector<std::int64_t> counts_;
  std::vector<ElementRange> padding_at_;
  std::vector<AllToAllCounts> splits_;
  std::vector<SplitChoice> choices_;
  std::vector<std::pair<int, CallRecord>> disagreements_;
};

}  // namespace shardsim
