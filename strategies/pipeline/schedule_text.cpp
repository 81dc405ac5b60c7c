#include "strategies/pipeline/schedule_text.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

std::string_view name_of(Placement placement) { return placement == Placement::v ? "v" : "loop"; }

void pad_to(std::string& text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
}

std::size_t digits(std::size_t number) { return std::to_string(number).size(); }

}  // namespace

std::string padded(std::string text, std::size_t width) {
  pad_to(text, width);
  return text;
}

std::string to_text(const PipelineSchedule& schedule) {
  std::vector<std::vector<std::string>> cells;
  std::size_t width = 0;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    cells.emplace_back();
    for (const Action& action : schedule.actions[rank]) {
      cells.back().push_back(schedule.cell_text(static_cast<int>(rank), action));
      width = std::max(width, cells.back().back().size());
    }
  }
  std::string text = concat("schedule ", schedule.name, ": ", schedule.shape.num_ranks, " ranks, ",
                            schedule.shape.num_chunks, " chunks, ", schedule.shape.num_microbatches,
                            " microbatches, ", name_of(schedule.placement), " placement, ",
                            schedule.sends_in_flight, " sends in flight\n");
  const std::size_t rank_width = digits(cells.empty() ? 0 : cells.size() - 1);
  for (std::size_t rank = 0; rank < cells.size(); ++rank) {
    std::string line = "rank ";
    line.append(rank_width - digits(rank), ' ');
    line += std::to_string(rank) + ":";
    for (const std::string& cell : cells[rank]) {
      pad_to(line, line.size() + 1);
      const std::size_t end = line.size() + width;
      line += cell;
      if (&cell != &cells[rank].back()) pad_to(line, end);
    }
    text += line + "\n";
  }
  return text;
}

namespace {

// Reads words one after the other, and knows where it is for the sake of errors.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

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

int read_count(Reader& reader, std::string_view what) {
  const int value = reader.number("the number of " + std::string(what));
  if (value == 0) reader.fail("at least one", "0");
  reader.expect(what);
  return value;
}

PipelineSchedule read_header(Reader& reader) {
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

Action read_cell(Reader& reader, const PipelineSchedule& schedule, int rank) {
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

}  // namespace

PipelineSchedule parse_schedule_text(std::string_view text) {
  Reader reader(text);
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

}  // namespace shardsim
