#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "backends/program/recorder.hpp"
#include "backends/program/repeat_text.hpp"
#include "backends/repeats.hpp"

namespace shardsim {

/// Thrown when work turns out not to be what was written down for it. Not derived from
/// std::exception, as NotRecordable. The program must be recorded without repeats.
struct RepeatsDiffer {};

/// The repeats of one program. Work is run the first time, and now and then to be compared. What
/// written work leaves to other work are numbers of allocations: tensors are made of them only for
/// those who look.
class RecordedRepeats final : public Repeats {
 public:
  /// The ledgers write to `writer`, too.
  RecordedRepeats(ProgramWriter& writer, MemoryLedger& ledger, MemoryLedger& host_ledger)
      : writer_(writer), ledger_(ledger), host_ledger_(host_ledger) {}

  /// Throws RepeatsDiffer.
  [[nodiscard]] Tensor run(Work& work) override;
  /// Throws RepeatsDiffer.
  void require_first_run(std::int64_t pair) override;
  void show(std::vector<Tensor>& kept) override;
  /// The program has ended. Throws RepeatsDiffer if somebody has lost what work had left.
  void finish() const;

 private:
  struct Known {
    std::vector<RepeatOutput> given;  // Sizes of the tensors used and kept.
    const Known* giver = nullptr;     // The last one whose hidden tensors had these sizes.
    RepeatText text;
    std::int64_t times = 0;
    std::int64_t next_check = 1;  // In times.
    bool was_used = false;
    bool was_last_checked = false;  // One that ends a step.
  };
  // The tensors that written work has left among `kept`.
  struct Held {
    std::size_t place = 0;             // Among all.
    const Known* giver = nullptr;      // Null: all of it was taken.
    std::vector<std::uint32_t> slots;  // By the giver's allocation: kTaken, or one that is hidden.
    std::vector<Tensor> tensors;       // Those among `kept` that are not hidden.
  };
  static constexpr std::uint32_t kTaken = ~std::uint32_t{0};
  class Writing;

  // The record of works with this key whose tensors have the same sizes. Throws RepeatsDiffer if
  // there are many sizes.
  [[nodiscard]] Known& known_of(Work& work);
  [[nodiscard]] bool has_sizes(Known& known, const Work& work);
  [[nodiscard]] static bool is_checked(const Known& known, bool is_last);
  // Whether the work is to be run.
  [[nodiscard]] bool runs(const Known& known, const Work& work);
  [[nodiscard]] Tensor run_and_read(Known& known, Work& work);
  // Those whose place a lone tensor has among `kept`; null: its tensors are there.
  [[nodiscard]] Held* held_in(const std::vector<Tensor>& kept);
  // A new one, whose place is in `kept` from now on.
  [[nodiscard]] Held& hold(std::vector<Tensor>& kept);
  void give_back(Held& held);
  // A tensor for an allocation; `slot`: which of those that were written, kTaken: a new one.
  [[nodiscard]] Tensor make(std::uint32_t row, std::uint32_t slot = kTaken);

  ProgramWriter& writer_;
  MemoryLedger& ledger_;
  MemoryLedger& host_ledger_;
  std::map<std::int64_t, std::deque<Known>> known_;  // By key.
  std::set<std::int64_t> half_run_;                  // Pairs whose first work was run.
  std::deque<Held> held_;
  std::vector<std::size_t> free_;  // Places in held_.
  // Reused by each writing: what the work's allocations and calls have become.
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint32_t> calls_;
};

}  // namespace shardsim
