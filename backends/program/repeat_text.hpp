#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "backends/program/recorder.hpp"
#include "backends/repeats.hpp"

// The steps of work that repeats, in terms of its own tensors: they can be written down again for
// other tensors.
namespace shardsim {

/// A tensor's part in the work, whichever tensors it has this time.
struct RepeatSource {
  enum class Kind : std::uint8_t { none, made, used, kept, answer, unknown };
  Kind kind = Kind::none;
  std::uint32_t number = 0;

  friend bool operator==(const RepeatSource&, const RepeatSource&) = default;
};

/// A tensor that the work leaves behind.
struct RepeatOutput {
  RepeatSource source;
  std::int64_t offset_bytes = 0;
  Shape shape;
  DType dtype = DType::fp32;

  friend bool operator==(const RepeatOutput&, const RepeatOutput&) = default;
};

struct RepeatItem {
  enum class Kind : std::uint8_t {
    step,      ///< A step without a slot.
    ask,       ///< `row` is the question.
    allocate,  ///< `number`: which allocation of the work. It is released, or left among `kept`.
    make,      ///< The same for the one of its output.
    release,   ///< An allocation of the work,
    drop,      ///< or a tensor that was given to it: `number` among `kept`.
    post,      ///< `number`: which call of the work.
    wait,
    follow,
  };
  Kind kind = Kind::step;
  ProgramStep::Kind step = ProgramStep::Kind::compute;
  std::uint32_t number = 0;
  std::uint32_t row = 0;
  std::uint32_t num_alone = 0;  ///< So many items from this one on are nobody else's.

  [[nodiscard]] bool is_alone() const {
    return kind != Kind::ask && kind != Kind::make && kind != Kind::drop;
  }
  friend bool operator==(const RepeatItem&, const RepeatItem&) = default;
};

struct RepeatText {
  bool can_repeat = true;
  std::vector<RepeatItem> items;
  std::vector<RepeatOutput> kept;
  RepeatOutput output;
  std::uint32_t num_allocations = 0;
  std::uint32_t num_calls = 0;
  std::uint32_t num_answers = 0;
  bool gives_answers = false;   ///< Among its outputs.
  bool passes_kept_on = false;  ///< A tensor given to it among `kept` is among its outputs.
  bool leaves_hidden = false;   ///< See is_hidden.

  /// Whether nobody sees the tensor until somebody takes it from `kept`.
  [[nodiscard]] bool is_hidden(const RepeatSource& source) const {
    return source.kind == RepeatSource::Kind::made && !(source == output.source);
  }
  /// How many of `kept` come before place `number` and are not hidden.
  [[nodiscard]] std::uint32_t num_shown_before(std::uint32_t number) const {
    const auto end = kept.begin() + number;
    return static_cast<std::uint32_t>(std::count_if(
        kept.begin(), end, [&](const RepeatOutput& each) { return !is_hidden(each.source); }));
  }
  friend bool operator==(const RepeatText&, const RepeatText&) = default;
};

/// Reads the text of a work while it runs, from what it writes.
class RepeatReader {
 public:
  RepeatReader(const ProgramWriter& program, const Repeats::Work& work);

  /// A question was answered by all that has been written since `begin`.
  void asked(int question, std::size_t begin, const Tensor& answer);
  /// The work has run.
  [[nodiscard]] RepeatText finish(const Repeats::Work& work, const Tensor& output);
  [[nodiscard]] std::size_t end() const { return program_.num_steps(); }

 private:
  void note(RepeatSource::Kind kind, std::span<const Tensor> tensors);
  void read_until(std::size_t until);
  void skip_until(std::size_t until);
  void finish_items();
  [[nodiscard]] RepeatItem item_of(const ProgramStep& step);
  [[nodiscard]] RepeatItem release_of(std::uint32_t slot);
  [[nodiscard]] RepeatItem wait_of(const ProgramStep& step);
  [[nodiscard]] RepeatOutput output_of(const Tensor& tensor);
  [[nodiscard]] bool has_output(const RepeatSource& source) const;

  const ProgramWriter& program_;
  std::size_t at_;
  RepeatText text_;
  bool frees_answers_ = false;
  std::map<std::uint32_t, RepeatSource> own_;      // By slot.
  std::map<std::uint32_t, std::uint32_t> posted_;  // By slot, which call.
};

}  // namespace shardsim
