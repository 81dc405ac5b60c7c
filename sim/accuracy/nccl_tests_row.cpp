#include "sim/accuracy/nccl_tests_row.hpp"

#include <cmath>

#include <fmt/format.h>

#include "sim/hardware/nccl/constants.hpp"

namespace shardsim {

namespace {

// GB/s are printed with two decimals, and microseconds with at least three digits.
constexpr double kRoundedBandwidth = 0.01;
constexpr double kRoundedTime = 0.01;
// From here on two decimals give a share to better than one in a thousand.
constexpr double kTellingBandwidth = 10.0;

std::size_t column_of(const LogLine& header, const char* name, const Span& place) {
  const std::size_t column = header.find(name);
  if (column == header.words.size()) {
    refuse_table("E0941", place, fmt::format("no column is called {}", name),
                 "give the table as nccl-tests prints it");
  }
  return column - 1;  // The first word is "#".
}

[[noreturn]] void cut_off(const Span& place, const std::string& what) {
  refuse_table("E0941", place, "this is no whole row: " + what,
               "remove the line if the table was cut off here; if a log line broke it, run again "
               "with NCCL_DEBUG=WARN, or with standard error elsewhere (2>log)");
}

double number_at(const LogLine& line, std::size_t column, const Span& place) {
  const std::optional<double> number = decimal_number(line.word(column));
  if (!number) {
    cut_off(place, fmt::format("\"{}\" is no number", printable(line.word(column), 20)));
  }
  return *number;
}

}  // namespace

NcclTestsColumns::NcclTestsColumns(const LogLine& header, const Span& place)
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
    refuse_table("E0941", place, "no columns are called time algbw busbw #wrong, in this order",
                 "give the table as nccl-tests prints it");
  }
}

std::optional<NcclTestsColumns::Timing> NcclTestsColumns::timing(const LogLine& line,
                                                                 const Span& place,
                                                                 const Place& columns) const {
  if (line.word(columns.time) == "N/A") return std::nullopt;
  const Timing found{number_at(line, columns.time, place), number_at(line, columns.time + 1, place),
                     number_at(line, columns.time + 2, place)};
  if (!(found.time_us > 0.0)) cut_off(place, "a time is not above 0");
  const std::string_view wrong = line.word(columns.time + 3);
  if (columns.counts_wrong && wrong != "N/A" && number_at(line, columns.time + 3, place) != 0) {
    refuse_table(
        "E0942", place, fmt::format("{} elements are wrong in this row", wrong),
        "find out why first (a GPU, a link, a driver): times of wrong results say nothing");
  }
  return found;
}

void NcclTestsColumns::check_type(const std::string& type, const std::string& reduction,
                                  const Span& place) const {
  if (reduction != "sum" && reduction != "none") {
    refuse_table("E0944", place,
                 fmt::format("the reduction is {}, and what is priced here are sums: NCCL may take "
                             "other algorithms for it",
                             printable(reduction, 20)),
                 "run the test with -o sum");
  }
  if (type.find("8e") != std::string::npos || type.find("fp8") != std::string::npos) {
    refuse_table("E0944", place,
                 fmt::format("the type is {}, which NVSwitch does not reduce", printable(type, 20)),
                 "run the test with -d bfloat16 or -d float");
  }
}

ParsedRow NcclTestsColumns::parse(const LogLine& line, const Span& place) const {
  if (line.words.size() != num_columns_) {
    cut_off(place, fmt::format("it has {} of {} columns", line.words.size(), num_columns_));
  }
  ParsedRow parsed;
  parsed.reduction = std::string(line.word(reduction_));
  check_type(std::string(line.word(type_)), parsed.reduction, place);
  if (root_) {
    const std::optional<long long> root = whole_number(line.word(*root_));
    if (!root) cut_off(place, "the root is no number");
    parsed.root = static_cast<int>(*root);
  }
  parsed.row.size = *whole_number(line.word(size_));
  parsed.row.place = place;
  if (parsed.row.size == 0) return parsed;
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;
  if (parsed.row.size < 0 || parsed.row.size > kMostBytes) cut_off(place, "no buffer is so large");
  int num_timed = 0;
  for (const Place& columns : places_) {
    const std::optional<Timing> found = timing(line, place, columns);
    if (!found) continue;
    const double algbw = static_cast<double>(parsed.row.size) / (kBytesPerUs * found->time_us);
    if (!(std::abs(algbw - found->algbw) <= kRoundedBandwidth + kRoundedTime * algbw)) {
      refuse_table("E0943", place,
                   fmt::format("{} bytes in {} us are {:.2f} GB/s, and the row says {}",
                               parsed.row.size, found->time_us, algbw, found->algbw),
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

}  // namespace shardsim
