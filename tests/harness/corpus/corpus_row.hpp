#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/call_site.hpp"

#include "sim/harness/check.hpp"

// A row of the bug corpus: a small program with a bug planted in it, and what the harness must say
// of it. The same program without the bug must pass.
namespace shardsim::corpus {

/// Tells a program whether it has its bug, and is told where the bug is.
class Plant {
 public:
  /// Lines of the row's file. Outlives the plant.
  using Lines = std::set<int>;
  Plant(bool planted, Lines* lines) : planted_(planted), lines_(lines) {}

  /// One rank has nobody to disagree with: it is right always.
  [[nodiscard]] bool in(const RankContext& context) const { return planted_ && context.size() > 1; }
  /// The report is to point to the call on the line after this one.
  void next_line(CallSite here = CallSite::here()) const {
    if (lines_ != nullptr) lines_->insert(here.line + 1);
  }

 private:
  bool planted_;
  Lines* lines_;
};

/// Which sides of the report must be the culprits.
enum class Who : std::uint8_t {
  first,  ///< The first. For a gap between shards: the one whose shard ends there.
  /// All together: circles, messages whose ends disagree, values that are wrong everywhere. Nobody
  /// can say which of them is wrong.
  every,
};

/// World ranks, for a number of ranks.
using Culprits = std::function<std::vector<int>(int size)>;

struct Row {
  std::string id;
  std::string bug;  ///< In words.
  std::function<void(RankContext&, const Plant&)> program;
  std::string code;
  Culprits culprits;
  Who who = Who::first;
  std::string text;  ///< Must occur in the report, too.
  std::string file;  ///< The program's file.
  CheckOptions options = {.ranks = {8}};
  /// Where it is small enough to be seen, if not from 2 ranks on; shrinking cannot go below.
  int fewest_ranks = 2;
  bool warning = false;   ///< Legal here: a warning and no failure.
  bool explored = false;  ///< Not to be seen in the one schedule that comes without exploring.
};

/// The program that check() runs. It adds the lines of the bug to `lines` if given.
inline Program program_of(const Row& row, bool planted, Plant::Lines* lines = nullptr) {
  return [program = row.program, plant = Plant(planted, lines)](RankContext& context) {
    program(context, plant);
  };
}

inline CheckOptions options_of(const Row& row) {
  CheckOptions options = row.options;
  options.name = row.id;
  return options;
}

/// One place for the file's name in all rows of it.
inline std::vector<Row> in_file(std::vector<Row> rows, CallSite here = CallSite::here()) {
  for (Row& row : rows) row.file = here.file;
  return rows;
}

[[nodiscard]] std::vector<Row> collective_rows();  // Calls that the members of a group disagree on.
[[nodiscard]] std::vector<Row> group_rows();       // Several groups.
[[nodiscard]] std::vector<Row> argument_rows();    // Calls that are wrong by themselves.
[[nodiscard]] std::vector<Row> message_rows();     // Point to point.
[[nodiscard]] std::vector<Row> open_message_rows();  // Receives that leave open from whom.
[[nodiscard]] std::vector<Row> buffer_rows();
[[nodiscard]] std::vector<Row> culprit_rows();  // One rank that holds up others.
[[nodiscard]] std::vector<Row>
scale_rows();  // Gradients that are a multiple of what they are to be.
[[nodiscard]] std::vector<Row>
reduction_rows();  // Sums that lack a part, or ranks that lack the sum.
[[nodiscard]] std::vector<Row> shard_rows();
[[nodiscard]] std::vector<Row> pipeline_rows();
[[nodiscard]] std::vector<Row> stream_rows();  // Dropout, positions.
[[nodiscard]] std::vector<Row> expert_rows();
[[nodiscard]] std::vector<Row> precision_rows();
/// All of them.
[[nodiscard]] std::vector<Row> failing_rows();

/// Programs that are right, though unusual.
[[nodiscard]] std::vector<Row> legal_rows();

/// A report, held against its row.
struct Finding {
  std::string code;
  std::string ranks;  ///< Ranks of the first side.
  std::string place;  ///< Place of the first side that has one.
  bool right_code = false;
  bool right_ranks = false;
  /// The call of the first side that made one (those who miss a call are missed at that of the
  /// others); where nobody can say who is wrong, the calls of all.
  bool right_place = false;
  bool right_text = false;
  [[nodiscard]] bool all_right() const {
    return right_code && right_ranks && right_place && right_text;
  }
};
/// `lines`: what the program has told of itself.
[[nodiscard]] Finding judge(const Row& row, const Diagnosis& found, const Plant::Lines& lines);

}  // namespace shardsim::corpus
