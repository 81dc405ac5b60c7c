#include <cmath>
#include <cstddef>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

#include "sim/hardware/nccl/constants.hpp"

#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/accuracy/nccl_tests_table.hpp"
#include "sim/accuracy/run_preamble.hpp"
#include "sim/console/whole_file.hpp"

namespace shardsim {

namespace {

// A row of nccl-tests, read by the line that names its columns: their set differs between releases,
// and `shardsim collective` adds some at the end.
struct ParsedRow {
  NcclTestsRow row;
  std::string reduction;
  std::optional<int> root;
};

// GB/s are printed with two decimals, and microseconds with at least three digits.
constexpr double kRoundedBandwidth = 0.01;
constexpr double kRoundedTime = 0.01;
// From here on two decimals give a share to better than one in a thousand.
constexpr double kTellingBandwidth = 10.0;

std::size_t column_of(const LogLine& header, const char* name, const Span& place) {
  const std::size_t column = header.find(name);
  if (column == header.words.size()) {
    throw_problem("E0941", place, fmt::format("no column is called {}", name),
                  "give the table as nccl-tests prints it");
  }
  return column - 1;  // The first word is "#".
}

[[noreturn]] void cut_off(const Span& place, const std::string& what) {
  throw_problem("E0941", place, "this is no whole row: " + what,
                "remove the line if the table was cut off here; if a log line broke it, run again "
                "with NCCL_DEBUG=WARN, or with standard error elsewhere (2>log)");
}

double number_at(const LogLine& line, std::size_t column, const Span& place) {
  const std::optional<double> number = parse_number<double>(line.word(column));
  if (!number || !std::isfinite(*number)) {
    cut_off(place, fmt::format("\"{}\" is no number", printable(line.word(column), 20)));
  }
  return *number;
}

void check_type(const std::string& type, const std::string& reduction, const Span& place) {
  if (reduction != "sum" && reduction != "none") {
    throw_problem(
        "E0944", place,
        fmt::format("the reduction is {}, and what is priced here are sums: NCCL may take "
                    "other algorithms for it",
                    printable(reduction, 20)),
        "run the test with -o sum");
  }
  if (type.find("8e") != std::string::npos || type.find("fp8") != std::string::npos) {
    throw_problem(
        "E0944", place,
        fmt::format("the type is {}, which NVSwitch does not reduce", printable(type, 20)),
        "run the test with -d bfloat16 or -d float");
  }
}

class NcclTestsColumns {
 public:
  // `header`: "# size count type redop root time algbw busbw #wrong ...". Throws ScenarioError
  // E0941 if it lacks one of them.
  NcclTestsColumns(const LogLine& header, const Span& place)
      : num_columns_(header.words.size() - 1),
        size_(column_of(header, "size", place)),
        type_(column_of(header, "type", place)),
        reduction_(column_of(header, "redop", place)) {
    const std::size_t root = header.find("root");
    if (root < header.words.size()) root_ = root - 1;
    for (std::size_t i = 1; i < header.words.size(); ++i) {
      if (header.words[i] != "time" || header.word(i + 1) != "algbw") continue;
      const std::string_view last = header.word(i + 3);
      if (header.word(i + 2) != "busbw" || (last != "#wrong" && last != "error")) continue;
      places_.push_back({i - 1, last == "#wrong"});
    }
    if (places_.empty()) {
      throw_problem("E0941", place, "no columns are called time algbw busbw #wrong, in this order",
                    "give the table as nccl-tests prints it");
    }
  }

  // Throws ScenarioError E0941 to E0944.
  [[nodiscard]] ParsedRow parse(const LogLine& line, const Span& place) const {
    if (line.words.size() != num_columns_) {
      cut_off(place, fmt::format("it has {} of {} columns", line.words.size(), num_columns_));
    }
    ParsedRow parsed;
    parsed.reduction = std::string(line.word(reduction_));
    check_type(std::string(line.word(type_)), parsed.reduction, place);
    if (root_) {
      const std::optional<long long> root = parse_number<long long>(line.word(*root_));
      if (!root) cut_off(place, "the root is no number");
      parsed.root = static_cast<int>(*root);
    }
    parsed.row.size = *parse_number<long long>(line.word(size_));
    parsed.row.place = place;
    if (parsed.row.size == 0) return parsed;
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;
    if (parsed.row.size < 0 || parsed.row.size > kMostBytes)
      cut_off(place, "no buffer is so large");
    int num_timed = 0;
    for (const Place& columns : places_) {
      const std::optional<Timing> found = timing(line, place, columns);
      if (!found) continue;
      const double algbw = static_cast<double>(parsed.row.size) / (kBytesPerUs * found->time_us);
      if (!(std::abs(algbw - found->algbw) <= kRoundedBandwidth + kRoundedTime * algbw)) {
        throw_problem(
            "E0943", place,
            fmt::format("{} bytes in {} us are {:.2f} GB/s, and the row says {}", parsed.row.size,
                        found->time_us, algbw, found->algbw),
            "give the table as nccl-tests prints it: times in microseconds, columns in its "
            "order");
      }
      if (found->algbw >= kTellingBandwidth) parsed.row.bus_share = found->busbw / found->algbw;
      parsed.row.time_us += found->time_us;
      ++num_timed;
    }
    if (num_timed == 0) cut_off(place, "it has no time, neither out-of-place nor in-place");
    parsed.row.time_us /= num_timed;
    return parsed;
  }

 private:
  // The first column of out-of-place or in-place: time, algbw, busbw and wrong elements.
  struct Place {
    std::size_t time = 0;
    bool counts_wrong = false;  // Old releases print the largest error instead.
  };
  struct Timing {
    double time_us = 0.0;
    double algbw = 0.0;
    double busbw = 0.0;
  };

  [[nodiscard]] static std::optional<Timing> timing(const LogLine& line, const Span& place,
                                                    const Place& columns) {
    if (line.word(columns.time) == "N/A") return std::nullopt;
    const Timing found{number_at(line, columns.time, place),
                       number_at(line, columns.time + 1, place),
                       number_at(line, columns.time + 2, place)};
    if (!(found.time_us > 0.0)) cut_off(place, "a time is not above 0");
    const std::string_view wrong = line.word(columns.time + 3);
    if (columns.counts_wrong && wrong != "N/A" && number_at(line, columns.time + 3, place) != 0) {
      throw_problem(
          "E0942", place, fmt::format("{} elements are wrong in this row", wrong),
          "find out why first (a GPU, a link, a driver): times of wrong results say nothing");
    }
    return found;
  }

  std::size_t num_columns_ = 0;
  std::size_t size_ = 0;
  std::size_t type_ = 0;
  std::size_t reduction_ = 0;
  std::optional<std::size_t> root_;
  std::vector<Place> places_;
};

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
    if (!parse_number<long long>(line.word(0))) return false;
    return line.words.size() == 1 || parse_number<long long>(line.word(1)).has_value();
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
      throw_problem(
          "E0940", {source_.get(), 0, 0}, "there is no table of nccl-tests here",
          "give the text that all_reduce_perf and its like print, with the line that names "
          "the columns (\"# size count type redop ...\")");
    }
    for (const NcclTestsTable& table : tables_) {
      if (table.rows.empty()) {
        throw_problem(
            "E0940", table.place, "this table has no rows with bytes",
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

std::vector<NcclTestsTable> parse_nccl_tests(const std::string& text,
                                             const std::string& file_name) {
  return LogReader(std::make_shared<const SourceText>(SourceText{file_name, text})).read();
}

std::vector<NcclTestsTable> read_nccl_tests(const std::string& path, std::istream& input) {
  if (path == kStandardInput) {
    return parse_nccl_tests(read_standard_input(input, kMaxLogBytes), "standard input");
  }
  return parse_nccl_tests(read_regular_file(path, kMaxLogBytes), path);
}

}  // namespace shardsim
