#include <istream>
#include <iterator>

#include <fmt/format.h>

#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/accuracy/log_line.hpp"
#include "sim/accuracy/nccl_tests_row.hpp"
#include "sim/accuracy/nccl_tests_table.hpp"
#include "sim/accuracy/run_preamble.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kMaxLogBytes = std::size_t{64} << 20U;

class LogReader {
 public:
  explicit LogReader(std::shared_ptr<const SourceText> source) : source_(std::move(source)) {}

  std::vector<NcclTestsTable> read() {
    for (const LogLine& line : log_lines(source_->text)) {
      if (columns_ && ends_table(line)) {
        tables_.back().complete = true;
        columns_.reset();
        preamble_ = RunPreamble(source_.get());
      } else if (line.is_comment() && line.find("algbw") < line.words.size()) {
        begin_table(line);
      } else if (columns_ && looks_like_row(line)) {
        add_row(line);
      } else {
        preamble_.take(line);
      }
    }
    drop_empty();
    return std::move(tables_);
  }

 private:
  static bool ends_table(const LogLine& line) {
    return line.word(1) == "Avg" && line.word(2) == "bus" && line.word(3) == "bandwidth";
  }

  // Two whole numbers, or one alone: any other such line within a table is a row cut off.
  static bool looks_like_row(const LogLine& line) {
    if (!whole_number(line.word(0))) return false;
    return line.words.size() == 1 || whole_number(line.word(1)).has_value();
  }

  Span span_of(const LogLine& line) const {
    return {source_.get(), line.offset, std::max<std::size_t>(line.text.size(), 1)};
  }

  void begin_table(const LogLine& line) {
    columns_.emplace(line, span_of(line));
    NcclTestsTable& table = tables_.emplace_back();
    table.source = source_;
    table.place = span_of(line);
    preamble_.describe(table);
  }

  void add_row(const LogLine& line) {
    NcclTestsTable& table = tables_.back();
    const ParsedRow row = columns_->parse(line, span_of(line));
    table.reduction = row.reduction;
    table.root = row.root;
    if (row.row.size == 0) {
      ++table.num_empty;
    } else {
      table.rows.push_back(row.row);
    }
  }

  // A header without a row, as of a run that failed at once.
  void drop_empty() {
    if (tables_.empty()) {
      refuse_table(
          "E0940", {source_.get(), 0, 0}, "there is no table of nccl-tests here",
          "give the text that all_reduce_perf and its like print, with the line that names "
          "the columns (\"# size count type redop ...\")");
    }
    for (const NcclTestsTable& table : tables_) {
      if (table.rows.empty()) {
        refuse_table("E0940", table.place, "this table has no rows with bytes",
                     "remove it, or run the test again: it stopped before its first size, or -e is "
                     "too small for the ranks");
      }
    }
  }

  std::shared_ptr<const SourceText> source_;
  RunPreamble preamble_{source_.get()};
  std::optional<NcclTestsColumns> columns_;  // While rows may follow.
  std::vector<NcclTestsTable> tables_;
};

}  // namespace

void refuse_table(const std::string& code, const Span& span, const std::string& message,
                  const std::string& help) {
  ProblemList problems;
  problems.add(code, span, "", message, help);
  throw ScenarioError(problems.problems(), problems.num_dropped());
}

std::vector<NcclTestsTable> parse_nccl_tests(const std::string& text,
                                             const std::string& file_name) {
  return LogReader(std::make_shared<const SourceText>(SourceText{file_name, text})).read();
}

std::vector<NcclTestsTable> read_nccl_tests(const std::string& path, std::istream& input) {
  const std::string name = path == "-" ? "standard input" : path;
  ProblemList problems;
  const std::optional<std::string> text = path == "-"
                                              ? read_stream(input, name, kMaxLogBytes, problems)
                                              : read_regular_file(path, kMaxLogBytes, problems);
  if (!text) throw ScenarioError(problems.problems(), problems.num_dropped());
  return parse_nccl_tests(*text, name);
}

}  // namespace shardsim
