#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "backends/program/recorder.hpp"
#include "backends/repeats.hpp"

namespace shardsim {

/// Thrown when work turns out not to be what was written down for it. Not derived from
/// std::exception, as NotRecordable. The program must be recorded without repeats.
struct RepeatsDiffer {};

/// The repeats of one program. Work is run the first time, and now and then to be compared.
class RecordedRepeats final : public Repeats {
 public:
  /// The ledgers write to `writer`, too.
  RecordedRepeats(ProgramWriter& writer, MemoryLedger& ledger, MemoryLedger& host_ledger)
      : writer_(writer), ledger_(ledger), host_ledger_(host_ledger) {}

  /// Throws RepeatsDiffer.
  [[nodiscard]] Tensor run(Work& work) override;
  /// Throws RepeatsDiffer.
  void require_first_run(std::int64_t pair) override;

 private:
  // A tensor's part in the work, whichever tensors it has this time.
  struct Source {
    enum class Kind : std::uint8_t { none, made, used, kept, answer, unknown };
    Kind kind = Kind::none;
    std::uint32_t number = 0;

    friend bool operator==(const Source&, const Source&) = default;
  };
  struct Output {
    Source source;
    std::int64_t offset_bytes = 0;
    Shape shape;
    DType dtype = DType::fp32;

    friend bool operator==(const Output&, const Output&) = default;
  };
  struct Item {
    enum class Kind : std::uint8_t {
      step,      // A step without a slot.
      ask,       // `row` is the question.
      allocate,  // `number`: which allocation of the work.
      make,      // The same for one that it leaves behind.
      release,   // An allocation of the work,
      drop,      // or a tensor that was given to it: `number` among `kept`.
      post,      // `number`: which call of the work.
      wait,
      follow,
    };
    Kind kind = Kind::step;
    ProgramStep::Kind step = ProgramStep::Kind::compute;
    std::uint32_t number = 0;
    std::uint32_t row = 0;
    std::uint32_t num_alone = 0;  // So many items from this one on are alone.

    [[nodiscard]] bool is_alone() const {
      return kind != Kind::ask && kind != Kind::make && kind != Kind::drop;
    }
    friend bool operator==(const Item&, const Item&) = default;
  };
  struct Text {
    bool can_repeat = true;
    std::vector<Item> items;
    std::vector<Output> kept;
    Output output;
    std::uint32_t num_allocations = 0;
    std::uint32_t num_calls = 0;
    std::uint32_t num_answers = 0;
    bool gives_answers = false;  // Among its outputs.

    friend bool operator==(const Text&, const Text&) = default;
  };
  struct Known {
    std::vector<Output> given;  // Sizes of the tensors used and kept.
    Text text;
    std::int64_t times = 0;
    std::int64_t next_check = 1;  // In times.
    bool was_used = false;
    bool was_last_checked = false;  // One that ends a step.
  };
  class Reading;
  class Writing;

  // The record of works with this key whose tensors have the same sizes. Throws RepeatsDiffer if
  // there are many sizes.
  [[nodiscard]] Known& known_of(const Work& work);
  [[nodiscard]] static bool is_checked(const Known& known, bool is_last);
  // Whether the work is to be run.
  [[nodiscard]] bool runs(const Known& known, const Work& work);
  [[nodiscard]] Tensor run_and_read(Known& known, Work& work);

  ProgramWriter& writer_;
  MemoryLedger& ledger_;
  MemoryLedger& host_ledger_;
  std::map<std::int64_t, std::deque<Known>> known_;  // By key.
  std::set<std::int64_t> half_run_;                  // Pairs whose first work was run.
};

}  // namespace shardsim
