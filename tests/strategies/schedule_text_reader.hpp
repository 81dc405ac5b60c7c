#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule_text.hpp"

// Reads what strategies/pipeline/schedule_text.hpp writes, so that tests can write schedules down.
namespace shardsim::test {

// Reads words one after the other, and knows where it is for the sake of errors.
class ScheduleTextReader {
 public:
  explicit ScheduleTextReader(std::string_view text) : text_(text) {}

  [[nodiscard]] bool at_end() {
    skip_blanks();
    return position_ == text_.size();
  }

  // The text before the next blank, comma or colon.
  std::string_view word() {
    skip_blanks();
    word_ = position_;
    while (position_ < text_.size() && is_inside_word(text_[position_])) ++position_;
    return text_.substr(word_, position_ - word_);
  }

  void expect(std::string_view expected) {
    const std::string_view found = word();
    if (found != expected) fail("\"" + std::string(expected) + "\"", found);
  }

  void expect_mark(char mark) {
    skip_blanks();
    word_ = position_;
    if (position_ == text_.size() || text_[position_] != mark) {
      fail(std::string("'") + mark + "'",
           text_.substr(position_, position_ < text_.size() ? 1 : 0));
    }
    ++position_;
  }

  int number(std::string_view what) {
    const std::string_view found = word();
    const std::optional<int> value = parse_index(found);
    if (!value) fail(std::string(what), found);
    return *value;
  }

  // Whether the next word is `expected`; does not move.
  [[nodiscard]] bool next_is(std::string_view expected) {
    const std::size_t before = position_;
    const bool found = word() == expected;
    position_ = before;
    return found;
  }

  // About the word read last.
  [[noreturn]] void fail(const std::string& expected, std::string_view found) const {
    const std::string_view before = text_.substr(0, word_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
    throw UsageError(
        "E0756",
        concat("schedule text, line ", line, ", column ", word_ - line_start + 1, ": expected ",
               expected, ", found ", found.empty() ? "nothing" : '"' + std::string(found) + '"'),
        "the form is that of to_text(PipelineSchedule)");
  }

 private:
  [[nodiscard]] static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t'; }
  [[nodiscard]] static bool is_inside_word(char c) { return !is_blank(c) && c != ',' && c != ':'; }
  void skip_blanks() {
    while (position_ < text_.size() && is_blank(text_[position_])) ++position_;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t word_ = 0;  // Start of the last word.
};

inline int read_count(ScheduleTextReader& reader, std::string_view what) {
  const int value = reader.number("the number of " + std::string(what));
  if (value == 0) reader.fail("at least one", "0");
  reader.expect(what);
  return value;
}

inline PipelineSchedule read_header(ScheduleTextReader& reader) {
  PipelineSchedule schedule;
  reader.expect("schedule");
  schedule.name = reader.word();
  if (schedule.name.empty()) reader.fail("the schedule's name", "");
  reader.expect_mark(':');
  schedule.shape.num_ranks = read_count(reader, "ranks");
  reader.expect_mark(',');
  schedule.shape.num_chunks = read_count(reader, "chunks");
  reader.expect_mark(',');
  schedule.shape.num_microbatches = read_count(reader, "microbatches");
  if (!fits_into_memory(schedule.shape)) {
    reader.fail("at most " + std::to_string(kMaxForwards) + " forwards in all", "more");
  }
  reader.expect_mark(',');
  const std::string_view placement = reader.word();
  if (placement != "loop" && placement != "v") reader.fail("\"loop\" or \"v\"", placement);
  schedule.placement = placement == "v" ? Placement::v : Placement::loop;
  reader.expect("placement");
  reader.expect_mark(',');
  schedule.sends_in_flight = read_count(reader, "sends");
  reader.expect("in");
  reader.expect("flight");
  return schedule;
}

inline Action read_cell(ScheduleTextReader& reader, const PipelineSchedule& schedule, int rank) {
  const std::string_view word = reader.word();
  const bool overlaps = word.ends_with('&');
  const std::string_view cell = word.substr(0, word.size() - (overlaps ? 1 : 0));
  const std::optional<StageAction> found = ActionWords(cell).action();
  if (!found) reader.fail("an action such as 2F0 or 1SEND_B3", cell);
  const int chunk = schedule.chunk_of(found->stage);
  if (schedule.rank_of(found->stage) != rank || chunk > std::numeric_limits<std::int16_t>::max()) {
    reader.fail("an action of a stage of rank " + std::to_string(rank), cell);
  }
  Action action = make_action(found->kind, chunk, found->microbatch);
  action.overlaps_next = overlaps;
  return action;
}

/// The schedule that `text` shows; the inverse of to_text. Any amount of blanks may stand between
/// words. Reads also schedules that are wrong, as long as every cell is an action of a stage that
/// the rank has: what is wrong is for validate() to say. Throws UsageError with line and column.
[[nodiscard]] inline PipelineSchedule parse_schedule_text(std::string_view text) {
  ScheduleTextReader reader(text);
  PipelineSchedule schedule = read_header(reader);
  for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
    reader.expect("rank");
    const int found = reader.number("rank " + std::to_string(rank));
    if (found != rank) reader.fail("rank " + std::to_string(rank), std::to_string(found));
    reader.expect_mark(':');
    schedule.actions.emplace_back();
    while (!reader.at_end() && !reader.next_is("rank")) {
      schedule.actions.back().push_back(read_cell(reader, schedule, rank));
    }
  }
  if (!reader.at_end()) reader.fail("nothing after the last rank", reader.word());
  return schedule;
}

}  // namespace shardsim::test
