#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/units.hpp"
#include "sim/search/search_report.hpp"

namespace shardsim {
namespace {

// Points on a terminal: two columns and four rows of braille dots per character, or one sign on a
// terminal without braille.
constexpr std::size_t kColumns = 64;
constexpr std::size_t kRows = 10;
constexpr std::size_t kDotsAcross = 2;
constexpr std::size_t kDotsDown = 4;
// Bits of a braille character's dots, by column, then by row; Unicode 15, block 2800.
constexpr std::array<std::array<unsigned, kDotsDown>, kDotsAcross> kDots = {
    {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
constexpr unsigned kBraille = 0x2800;

std::string utf8(unsigned code) {
  constexpr unsigned kSixBits = 0x3F;
  return {static_cast<char>(0xE0U | code >> 12U),
          static_cast<char>(0x80U | (code >> 6U & kSixBits)),
          static_cast<char>(0x80U | (code & kSixBits))};
}

struct Range {
  double low = std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::lowest();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // 0 to `cells` - 1.
  [[nodiscard]] std::size_t place(double value, std::size_t cells) const {
    if (high <= low) return 0;
    return static_cast<std::size_t>((value - low) / (high - low) * static_cast<double>(cells - 1));
  }
};

class Canvas {
 public:
  explicit Canvas(bool ascii) : ascii_(ascii) {}

  void put(double across, double up, const Range& x, const Range& y, bool on_front) {
    const std::size_t dot_x = x.place(across, kColumns * kDotsAcross);
    const std::size_t dot_y = kRows * kDotsDown - 1 - y.place(up, kRows * kDotsDown);
    Cell& cell = cells_[dot_y / kDotsDown * kColumns + dot_x / kDotsAcross];
    cell.dots |= kDots.at(dot_x % kDotsAcross).at(dot_y % kDotsDown);
    cell.on_front |= on_front;
  }

  [[nodiscard]] std::string row(std::size_t index) const {
    std::string text;
    for (std::size_t column = 0; column < kColumns; ++column) {
      const Cell& cell = cells_[index * kColumns + column];
      if (cell.dots == 0) {
        text += ' ';
      } else if (cell.on_front) {
        text += '*';
      } else {
        text += ascii_ ? "." : utf8(kBraille + cell.dots);
      }
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
  }

 private:
  struct Cell {
    unsigned dots = 0;
    bool on_front = false;
  };
  bool ascii_;
  std::array<Cell, kColumns * kRows> cells_{};
};

constexpr std::size_t kScreen = 100;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kMostOnFront = 12;  // Lines; files have all.

// By Objective.
constexpr std::array kFirst = {"fastest first", "least memory first", "cheapest first"};

std::string paragraph(const std::string& words) {
  std::string text;
  for (const std::string& line : wrap_to_width(words, kScreen - kIndent, kIndent)) {
    text += "  " + line + "\n";
  }
  return text;
}

// A row of a table, with the measured runs like it where they are known.
struct Row {
  const SearchReport& report;
  const SimulatedPoint& point;
  const Result* measured = nullptr;
  const TrainingFigures* training = nullptr;
};

struct Column {
  const char* name;
  std::size_t width;
  std::string (*text)(const Row& row);
};

std::string about_words(const Row& row) {
  if (row.measured == nullptr) return "";
  const MetricBand* const band = row.measured->band_of(metric::kStepTimeS);
  return band == nullptr ? "no band" : format_seconds(band->centre);
}

std::string price_words(const Row& row) {
  if (row.training != nullptr && row.training->usd) {
    return "$" + format_amount(row.training->usd->centre, Digits::three);
  }
  return "$" + format_amount(row.report.usd_per_1t_tokens(row.point), Digits::three);
}

std::string days_words(const Row& row) {
  return row.training == nullptr ? "" : format_number(row.training->days.centre);
}

template <double SimulatedPoint::*kTime>
std::string seconds_words(const Row& row) {
  return format_seconds(row.point.*kTime);
}

std::string mfu_words(const Row& row) { return fmt::format("{:.1f}%", row.point.mfu * kPercent); }

std::string rate_words(const Row& row) { return format_number(row.point.tokens_per_s_per_gpu); }

std::string memory_words(const Row& row) {
  return format_memory(row.point.device_bytes) + (row.point.is_tight ? "!" : "");
}

std::string tensors_words(const Row& row) { return format_memory(row.point.peak_bytes); }

class Table {
 public:
  // `is_ranked`: with what is known of measured runs.
  Table(const SearchReport& report, bool wide, bool is_ranked) {
    if (is_ranked) columns_.push_back({"about", 9, about_words});
    columns_.push_back({"by model", 10, seconds_words<&SimulatedPoint::step_time_s>});
    columns_.push_back({"MFU", 7, mfu_words});
    const bool has_training = is_ranked && !report.training.empty();
    if (!has_training) columns_.push_back({"tok/s/GPU", 11, rate_words});
    columns_.push_back({"memory", 11, memory_words});
    if (has_training) columns_.push_back({"days", 8, days_words});
    if (report.usd_per_gpu_hour > 0) {
      columns_.push_back({has_training ? "price" : "$/1T tokens", 12, price_words});
    }
    std::size_t taken = kIndent + kRankWidth;
    for (const Column& column : columns_) taken += column.width;
    width_ = std::max(kScreen - taken, kLeastLayout);
    if (!wide) return;
    columns_.push_back({"compute", 10, seconds_words<&SimulatedPoint::compute_s>});
    columns_.push_back({"exposed", 10, seconds_words<&SimulatedPoint::exposed_comm_s>});
    columns_.push_back({"bubble", 10, seconds_words<&SimulatedPoint::bubble_s>});
    columns_.push_back({"host", 10, seconds_words<&SimulatedPoint::host_s>});
    columns_.push_back({"tensors", 12, tensors_words});
  }

  [[nodiscard]] std::string header(const char* first) const {
    std::string line = fmt::format("  {:>4}  {:<{}}", first, "layout", width_);
    for (const Column& column : columns_) line += fmt::format("{:>{}}", column.name, column.width);
    return line + "\n";
  }

  // A layout that is too long for its column goes on in the next line.
  [[nodiscard]] std::string row(const std::string& first, const Row& row) const {
    const std::vector<std::string> layout =
        wrap_to_width(words_of(row.point.candidate), width_ - 1, 2);
    std::string line = fmt::format("  {:>4}  {:<{}}", first, layout.front(), width_);
    for (const Column& column : columns_) {
      line += fmt::format("{:>{}}", column.text(row), column.width);
    }
    line += "\n";
    for (std::size_t i = 1; i < layout.size(); ++i) {
      line += std::string(kIndent + kRankWidth, ' ') + layout[i] + "\n";
    }
    return line;
  }

 private:
  static constexpr std::size_t kRankWidth = 6;
  static constexpr std::size_t kLeastLayout = 24;
  std::vector<Column> columns_;
  std::size_t width_ = 0;  // The width that the columns of numbers leave to layouts.
};

std::string heading(const SearchReport& report) {
  std::string text =
      fmt::format("{} on {} GPU{} of {}: {}, {} tokens per sequence, global batch {}\n",
                  escape_untrusted(report.model), report.num_gpus, report.num_gpus == 1 ? "" : "s",
                  escape_untrusted(report.system), report.precision, format_count(report.seq_len),
                  format_count(report.global_batch_size));
  for (const std::string& assumption : report.assumptions) {
    text += paragraph("assumed: " + escape_untrusted(assumption));
  }
  for (const std::string& words : report.ignored) {
    text += paragraph("ignored: " + escape_untrusted(words));
  }
  if (!report.not_modelled.empty()) {
    text += paragraph("not modelled: " + escape_untrusted(report.not_modelled));
  }
  if (!report.ranked.empty()) text += paragraph("MFU counts " + report.mfu_counts);
  return text;
}

std::string counts(const SearchReport& report) {
  std::string words = fmt::format(
      "{} layouts: {} simulated in full, {} shown by bounds to be worse, {} shown not to fit",
      format_count(report.num_candidates), format_count(report.num_simulated),
      format_count(report.num_slower), format_count(report.num_too_large));
  if (report.num_did_not_fit > 0) {
    words += fmt::format("; {} of those simulated did not fit", report.num_did_not_fit);
  }
  if (report.num_refused > 0) words += fmt::format("; {} not legal", report.num_refused);
  if (report.num_failed > 0) words += fmt::format("; {} failed", report.num_failed);
  if (report.num_open > 0) {
    words += fmt::format("; {} left open, neither simulated nor decided by bounds",
                         format_count(report.num_open));
  }
  words += ".";
  if (!report.least_that_did_not_fit.empty()) {
    words += fmt::format(" The smallest layout that does not fit in {} is {}: {}{}.",
                         format_memory(report.memory_capacity_bytes), report.least_that_did_not_fit,
                         report.least_is_simulated ? "" : "at least ",
                         format_memory(report.least_bytes_not_fitting));
  }
  if (report.num_failed > 0) {
    words += fmt::format(" First failed: {}, {}", report.first_failed,
                         escape_untrusted(report.first_failure));
  }
  if (report.stop == SearchStop::none) words += " The search is complete.";
  return paragraph(words);
}

std::string runner_up(const SearchReport& report) {
  if (report.differences.empty()) return {};
  std::string text = "\nwhy #1 and not #2\n";
  text += paragraph(report.why_runner_up);
  for (const CategoryDifference& category : report.differences) {
    if (category.best_s == 0 && category.runner_up_s == 0) continue;
    const double more = category.runner_up_s - category.best_s;
    text += fmt::format("    {:<24}{:>10}{:>10}   {}{}\n", category.category,
                        format_seconds(category.best_s), format_seconds(category.runner_up_s),
                        more < 0 ? "-" : "+", format_seconds(more < 0 ? -more : more));
  }
  return text;
}

std::string front(const SearchReport& report, const SearchTextOptions& options,
                  const Table& table) {
  std::string text =
      fmt::format("\nPareto front (*), up to {:.3g} x the fastest step; all by the model\n{}",
                  report.front_within, table.header(""));
  const std::size_t shown = std::min(report.front.size(), kMostOnFront);
  for (std::size_t i = 0; i < shown; ++i) {
    // Evenly over the front, with both ends.
    const std::size_t at = shown < 2 ? 0 : i * (report.front.size() - 1) / (shown - 1);
    text += table.row("*", {report, report.front[at]});
  }
  if (shown < report.front.size()) {
    text +=
        fmt::format("        {} of {}; --csv and --json have all\n", shown, report.front.size());
  }
  return text + "\n" + scatter_text(report, options.ascii);
}

std::string given(const SearchReport& report, const Table& table) {
  if (!report.given) return {};
  std::string text = "\nthe given layout\n";
  if (report.given->point) {
    const Row row = {report, *report.given->point, &report.given_measured,
                     report.given_training ? &*report.given_training : nullptr};
    text += table.header("") + table.row(">", row);
  } else {
    text += paragraph(words_of(report.given->candidate));
  }
  return text + paragraph(given_words(report));
}

std::string misfit(const SearchReport& report) {
  return "\nnothing fits\n" + counts(report) +
         paragraph(
             "Use more GPUs, a shorter --seq-len, a smaller --global-batch-size where "
             "microbatches are many, or --set parallelism.offload_optimizer=true.");
}

}  // namespace

std::string scatter_text(const SearchReport& report, bool ascii) {
  Range x;
  Range y;
  for (const SimulatedPoint& point : report.others) {
    x.include(point.tokens_per_s_per_gpu);
    y.include(static_cast<double>(point.device_bytes));
  }
  if (report.others.empty()) return {};
  Canvas canvas(ascii);
  const auto put = [&](const std::vector<SimulatedPoint>& points, bool on_front) {
    for (const SimulatedPoint& point : points) {
      canvas.put(point.tokens_per_s_per_gpu, static_cast<double>(point.device_bytes), x, y,
                 on_front);
    }
  };
  put(report.others, false);
  put(report.front, true);
  std::string text;
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::string label = row == 0           ? format_memory(y.high)
                              : row + 1 == kRows ? format_memory(y.low)
                                                 : std::string();
    text += fmt::format("  {:>10} {}{}\n", label, ascii ? "|" : "│", canvas.row(row));
  }
  std::string line;
  for (std::size_t i = 0; i < kColumns; ++i) line += ascii ? "-" : "─";
  text += fmt::format("  {:>10} {}{}\n", "", ascii ? "+" : "└", line);
  text += fmt::format("  {:>10}  {:<26}{:>38}\n", "", format_number(x.low) + " tok/s/GPU",
                      format_number(x.high) + " tok/s/GPU");
  return text;
}

std::string to_text(const SearchReport& report, const SearchTextOptions& options) {
  std::string text = heading(report);
  const bool is_complete = report.stop == SearchStop::none;
  if (!is_complete) text += paragraph(stop_words(report));
  const Table table(report, options.wide, /*is_ranked=*/false);
  const Table ranking(report, options.wide, /*is_ranked=*/true);
  if (report.ranked.empty()) {
    return text + (is_complete ? misfit(report) : counts(report)) + given(report, ranking);
  }
  text += fmt::format("\n{}; a row is the best {} layouts with its tp, cp and pp\n{}",
                      kFirst.at(static_cast<std::size_t>(report.objective)),
                      is_complete ? "of all" : "that was found of", ranking.header("rank"));
  bool is_tight = false;
  for (std::size_t i = 0; i < report.ranked.size(); ++i) {
    const Result* const measured = i < report.measured.size() ? &report.measured[i] : nullptr;
    const bool has_training = i < report.training.size();
    text += ranking.row(std::to_string(i + 1), {report, report.ranked[i], measured,
                                                has_training ? &report.training[i] : nullptr});
    is_tight |= report.ranked[i].is_tight;
  }
  for (const SimulatedPoint& point : report.front) is_tight |= point.is_tight;
  if (is_tight) {
    text += paragraph(fmt::format(
        "! fits, and leaves less than {:.3g} % of the {} that a GPU has (execution.memory_margin): "
        "it may run out of memory, so it is ranked behind all that leave more",
        report.memory_margin * kPercent, format_memory(report.memory_capacity_bytes)));
  }
  text +=
      paragraph("about, days and price: as runs like it were measured; all else is by the model");
  if (std::ranges::any_of(report.measured, [](const Result& measured) {
        return measured.band_of(metric::kStepTimeS) == nullptr;
      })) {
    text +=
        paragraph("no band: no measured run is like it, so its days and price are by the model");
  }
  text += paragraph(measured_words(report));
  text += runner_up(report) + given(report, ranking) + front(report, options, table) + "\n" +
          counts(report);
  if (!options.command.empty()) text += "\nnext: " + options.command + "\n";
  return text;
}

}  // namespace shardsim
