#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

#include "scenarios/scenario_error.hpp"
#include "scenarios/suggest.hpp"
#include "sim/accuracy/kernel_measurement.hpp"
#include "sim/accuracy/measurement_table.hpp"

namespace shardsim {

namespace {

// A quantity, and the columns that may tell it, ours first.
struct KernelColumn {
  const char* name;
  std::array<const char*, 3> others;
};

constexpr std::array<KernelColumn, 20> kKernelColumns = {{
    {"operation", {"op", nullptr, nullptr}},
    {"dtype", {"precision", nullptr, nullptr}},
    {"m", {}},
    {"n", {}},
    {"k", {}},
    {"batch", {}},
    {"out_dtype", {}},
    {"accumulate", {}},
    {"heads", {"num_heads", nullptr, nullptr}},
    {"kv_heads", {"num_kv_heads", nullptr, nullptr}},
    {"seq", {"seq_len", nullptr, nullptr}},
    {"kv_seq", {"kv_seq_len", nullptr, nullptr}},
    {"head_dim", {}},
    {"causal", {}},
    {"library", {}},
    {"bytes", {}},
    {"microseconds", {"us", "time_us", nullptr}},
    {"milliseconds", {"ms", "time_ms", nullptr}},
    {"seconds", {"s", "time_s", nullptr}},
    {"tflops", {}},
}};

// Above all products that are computed, and far below where their operations overflow.
constexpr std::int64_t kMostSize = std::int64_t{1} << 24;
constexpr std::int64_t kMostMoved = std::int64_t{1} << 50;
constexpr double kMostWork = 9e18;

struct TimeColumn {
  const char* name;
  double seconds;
};
constexpr std::array<TimeColumn, 3> kTimeColumns = {
    {{"microseconds", 1e-6}, {"milliseconds", 1e-3}, {"seconds", 1.0}}};

bool is_true(const std::string& cell) {
  return cell == "1" || cell == "yes" || cell == "true" || cell == "True";
}
bool is_false(const std::string& cell) {
  return cell.empty() || cell == "0" || cell == "no" || cell == "false" || cell == "False";
}

class KernelTableReader {
 public:
  KernelTableReader(const MeasurementTable& table, const KernelTableOptions& options)
      : table_(table) {
    for (const ColumnChoice& value : options.values) values_[value.name] = value.value;
    for (const KernelColumn& column : kKernelColumns) find(column, options);
    for (const ColumnChoice& condition : options.where) {
      const std::size_t column = table.find_column(condition.name);
      if (column == MeasurementTable::kNoColumn) continue;  // Another table's.
      conditions_.emplace_back(column, condition.value);
    }
    require_columns();
  }

  KernelTable read() {
    KernelTable result;
    for (const MeasurementRow& row : table_.rows) {
      if (!counts(row)) {
        ++result.num_left_out;
      } else if (const std::optional<KernelMeasurement> measured = measurement(row)) {
        result.rows.push_back(*measured);
      }
    }
    problems_.throw_if_any();
    if (result.rows.empty()) {
      throw_problem("E0960", header(),
                    fmt::format("no row is left: {} are left out by --where", result.num_left_out),
                    "compare --where with the cells of the table");
    }
    result.columns = table_.columns;
    for (std::size_t i = 0; i < table_.columns.size(); ++i) {
      const bool is_condition = std::ranges::any_of(
          conditions_, [&](const auto& condition) { return condition.first == i; });
      if (!used_.contains(i) && !is_condition) result.unread.push_back(table_.columns[i]);
    }
    return result;
  }

 private:
  [[nodiscard]] Span header() const { return {table_.source.get(), 0, 1}; }

  // A column that an option names; else the first of ours that the table has.
  void find(const KernelColumn& column, const KernelTableOptions& options) {
    const auto take = [&](const std::string& name) {
      const std::size_t place = table_.find_column(name);
      if (place == MeasurementTable::kNoColumn) return false;
      if (const auto before = columns_.find(column.name); before != columns_.end()) {
        throw_problem(
            "E0957", header(),
            fmt::format("the columns \"{}\" and \"{}\" both tell {}",
                        printable(table_.columns[before->second]), printable(name), column.name),
            fmt::format("choose one with --column {}={}", column.name, printable(name)));
      }
      columns_[column.name] = place;
      used_.insert(place);
      return true;
    };
    for (const ColumnChoice& chosen : options.columns) {
      if (chosen.name == column.name && take(chosen.value)) return;
    }
    if (values_.contains(column.name)) return;
    take(column.name);
    for (const char* other : column.others) {
      if (other != nullptr) take(other);
    }
  }

  [[nodiscard]] bool has(const char* name) const {
    return columns_.contains(name) || values_.contains(name);
  }

  void require(const char* name, const char* why) const {
    if (has(name)) return;
    const std::string near = nearest(name, table_.columns);
    throw_problem(
        "E0957", header(), fmt::format("no column tells {}, {}", name, why),
        (near.empty() ? std::string()
                      : fmt::format("if it is \"{}\", say --column {}={}; ", near, name, near)) +
            fmt::format("the column is called {0}, or named by --column {0}=NAME; --value {0}=... "
                        "is for one value in all rows",
                        name));
  }

  void require_columns() const {
    require("operation", "so nothing can be priced");
    require("dtype", "which decides the peak");
    int times = has("tflops") ? 1 : 0;
    for (const TimeColumn& time : kTimeColumns) times += has(time.name) ? 1 : 0;
    if (times == 0) require("microseconds", "nor milliseconds, seconds or tflops");
    if (times > 1) {
      throw_problem("E0957", header(), "several columns tell the time",
                    "leave one of microseconds, milliseconds, seconds and tflops, or choose "
                    "with --column microseconds=NAME and rename the others");
    }
  }

  [[nodiscard]] bool counts(const MeasurementRow& row) const {
    return std::ranges::all_of(conditions_, [&](const auto& condition) {
      return row.cells[condition.first] == condition.second;
    });
  }

  [[nodiscard]] std::string cell(const MeasurementRow& row, const char* name) const {
    if (const auto column = columns_.find(name); column != columns_.end()) {
      return row.cells[column->second];
    }
    const auto value = values_.find(name);
    return value == values_.end() ? std::string() : value->second;
  }

  [[nodiscard]] Span place(const MeasurementRow& row, const char* name) const {
    const auto column = columns_.find(name);
    return column == columns_.end() ? row.places.front() : row.places[column->second];
  }

  void problem(const char* code, const MeasurementRow& row, const char* name,
               const std::string& message, const std::string& help) {
    problems_.add(code, place(row, name), "", message, help);
    is_good_ = false;
  }

  // Each unknown word is told once, with its first row.
  void unknown(const MeasurementRow& row, const char* name, const std::vector<std::string>& known) {
    is_good_ = false;
    const std::string word = cell(row, name);
    if (!told_.insert(name + ("=" + word)).second) return;
    const std::string near = nearest(word, known);
    problem("E0958", row, name, fmt::format("\"{}\" is no {} here", printable(word, 40), name),
            (near.empty() ? std::string() : "did you mean \"" + near + "\"? ") + "the words are " +
                one_of_list(known) + "; --where leaves out rows that are of something else");
  }

  double number(const MeasurementRow& row, const char* name, double most) {
    const std::string text = cell(row, name);
    const std::optional<double> value = parse_number<double>(text);
    if (value && std::isfinite(*value) && *value > 0.0 && *value <= most) return *value;
    problem("E0959", row, name,
            fmt::format("{} must be a number above 0, not \"{}\"", name, printable(text, 40)),
            "correct the cell");
    return 1.0;
  }

  std::int64_t size(const MeasurementRow& row, const char* name, std::int64_t most = kMostSize) {
    const std::string text = cell(row, name);
    const std::optional<std::int64_t> value = parse_number<std::int64_t>(text);
    if (value && *value >= 1 && *value <= most) return *value;
    problem("E0959", row, name,
            fmt::format("{} must be a whole number from 1 to {}, not \"{}\"", name, most,
                        printable(text, 40)),
            has(name) ? "correct the cell"
                      : fmt::format("give the column {0}, or name it by --column {0}=NAME", name));
    return 1;
  }

  std::int64_t size_or(std::int64_t otherwise, const MeasurementRow& row, const char* name) {
    return cell(row, name).empty() ? otherwise : size(row, name);
  }

  bool truth(const MeasurementRow& row, const char* name) {
    const std::string text = cell(row, name);
    const bool is_so = is_true(text) || text == name;
    if (!is_so && !is_false(text)) {
      problem("E0959", row, name,
              fmt::format("{} must be yes or no, not \"{}\"", name, printable(text, 40)),
              fmt::format("write yes, {}, no, or leave the cell empty for no", name));
    }
    return is_so;
  }

  ComputeOp product(const MeasurementRow& row, const KernelPrecision& precision) {
    MeasuredProduct product{.m = size(row, "m"),
                            .n = size(row, "n"),
                            .k = size(row, "k"),
                            .batch = size_or(1, row, "batch"),
                            .accumulates = truth(row, "accumulate")};
    const std::string result = cell(row, "out_dtype");
    if (result == "fp32" || result == "float32" || result == "float") {
      product.result_bytes = 4;
    } else if (const KernelPrecision* of_result = find_precision(result)) {
      product.result_bytes = size_of(of_result->dtype);
    } else if (!result.empty()) {
      unknown(row, "out_dtype", {"bf16", "fp16", "fp8", "fp32"});
    }
    const double work = 2.0 * static_cast<double>(product.m) * static_cast<double>(product.n) *
                        static_cast<double>(product.k) * static_cast<double>(product.batch);
    if (work <= kMostWork) return work_of(product, precision);
    problem("E0959", row, "m", "the product has more operations than can be counted",
            "correct the sizes");
    return {};
  }

  ComputeOp attention(const MeasurementRow& row, KernelOperation operation, DType dtype) {
    MeasuredAttention attention{.batch = size_or(1, row, "batch"),
                                .heads = size(row, "heads"),
                                .kv_heads = size_or(0, row, "kv_heads"),
                                .queries = size(row, "seq"),
                                .head_dim = size(row, "head_dim"),
                                .is_causal = truth(row, "causal")};
    attention.keys = size_or(attention.queries, row, "kv_seq");
    if (attention.is_causal && attention.keys != attention.queries) {
      problem("E0959", row, "kv_seq", "causal attention has as many keys as queries here",
              "leave the row out, or price it as a product of its own");
    }
    const double work =
        10.0 * static_cast<double>(attention.batch) * static_cast<double>(attention.heads) *
        static_cast<double>(attention.queries) * static_cast<double>(attention.keys) *
        static_cast<double>(attention.head_dim);
    if (work <= kMostWork) return work_of(attention, operation, dtype);
    problem("E0959", row, "seq", "the attention has more operations than can be counted",
            "correct the sizes");
    return {};
  }

  std::optional<AttentionLibrary> library(const MeasurementRow& row) {
    const std::string name = cell(row, "library");
    std::vector<std::string> known;
    for (std::size_t i = 0; i < kAttentionLibraries; ++i) {
      const auto each = static_cast<AttentionLibrary>(i);
      if (name == name_of(each)) return each;
      known.emplace_back(name_of(each));
    }
    if (!name.empty()) unknown(row, "library", known);
    return std::nullopt;
  }

  double seconds(const MeasurementRow& row, const ComputeOp& work) {
    for (const TimeColumn& time : kTimeColumns) {
      if (has(time.name)) return number(row, time.name, 1e12) * time.seconds;
    }
    constexpr double kTera = 1e12;
    return static_cast<double>(work.flops) / (number(row, "tflops", 1e9) * kTera);
  }

  // Nothing, and problems, for a row that is none.
  std::optional<KernelMeasurement> measurement(const MeasurementRow& row) {
    is_good_ = true;
    const KernelOperation* const operation = find_kernel_operation(cell(row, "operation"));
    const KernelPrecision* const precision = find_precision(cell(row, "dtype"));
    if (operation == nullptr) unknown(row, "operation", kernel_operation_names());
    if (precision == nullptr) unknown(row, "dtype", kernel_precision_names());
    if (!is_good_) return std::nullopt;
    KernelMeasurement measured{.operation = *operation, .precision = *precision, .is_burst = true};
    const bool has_products = *operation <= KernelOperation::attention_backward;
    if (*operation == KernelOperation::matmul) {
      measured.work = product(row, *precision);
    } else if (has_products) {
      if (size_of(precision->dtype) != 2) unknown(row, "dtype", {"bf16", "fp16"});
      measured.work = attention(row, *operation, precision->dtype);
      measured.library = library(row);
    } else {
      measured.work = work_of_bytes(size(row, "bytes", kMostMoved), *operation, precision->dtype);
    }
    if (!has_products && has("tflops")) {
      problem("E0959", row, "tflops", "an operation without products has no tflops",
              "give its time in microseconds");
    }
    measured.seconds = seconds(row, measured.work);
    return is_good_ ? std::optional(measured) : std::nullopt;
  }

  const MeasurementTable& table_;
  std::map<std::string, std::size_t> columns_;  // By our names.
  std::map<std::string, std::string> values_;
  std::vector<std::pair<std::size_t, std::string>> conditions_;
  std::set<std::size_t> used_;
  std::set<std::string> told_;
  ProblemList problems_;
  bool is_good_ = true;
};

}  // namespace

std::vector<std::string> kernel_column_names() {
  std::vector<std::string> names;
  for (const KernelColumn& column : kKernelColumns) names.emplace_back(column.name);
  return names;
}

KernelTable parse_kernel_table(const std::string& text, const std::string& file,
                               const KernelTableOptions& options) {
  const MeasurementTable table = parse_measurement_table(text, file);
  KernelTable result = KernelTableReader(table, options).read();
  result.file = file;
  return result;
}

}  // namespace shardsim
