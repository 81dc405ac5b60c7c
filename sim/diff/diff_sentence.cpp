#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "reports/units.hpp"
#include "sim/diff/comparison.hpp"

namespace shardsim {

namespace {

// Below this a factor is shown in percents.
constexpr double kLeastFactor = 1.01;
// A smaller share of memory is not worth a word.
constexpr double kLeastShare = 0.001;

std::string subject_of(const RunSide& side, const char* letter) {
  return side.is_measured() ? "the measured run" : letter;
}

std::string capitalized(std::string text) {
  if (!text.empty() && text.front() == 't') text.front() = 'T';
  return text;
}

std::string how_much(double factor, bool faster) {
  const char* const word = faster ? "faster" : "slower";
  if (factor < kLeastFactor) return fmt::format("{:.2f} % {}", (factor - 1.0) * 100.0, word);
  return fmt::format("{:.2f} times {}", factor, word);
}

// "waits less for communication": the meaning of a row of the time table.
std::string deed_of(const DiffRow& row) {
  const char* const amount = row.difference() < 0 ? "less" : "more";
  if (row.name == kComputePart) return fmt::format("it computes {}", amount);
  if (row.name == kExposedPart) return fmt::format("it waits {} for communication", amount);
  if (row.name == kBubblePart) return fmt::format("its pipeline idles {}", amount);
  if (row.name == kHostPart) return fmt::format("it waits {} for the host", amount);
  if (row.name == kCopiesPart) return fmt::format("it copies {}", amount);
  if (row.name == kIdlePart) return fmt::format("it idles {}", amount);
  if (row.name.rfind("exposed ", 0) != 0) return "";
  const std::string axis = row.name.substr(row.name.find(' ') + 1);
  if (row.b == 0) return axis + " no longer waits";
  return fmt::format("{} waits {}", axis, amount);
}

std::string time_words(const RunComparison& comparison) {
  const DiffRow& step = comparison.time.total;
  const std::string a = subject_of(comparison.a, "A");
  const std::string b = subject_of(comparison.b, "B");
  if (step.a == step.b || step.a <= 0 || step.b <= 0) {
    return fmt::format("{} and {} take the same time ({})", capitalized(a), b,
                       format_seconds(seconds_of(step.b)));
  }
  const bool faster = step.b < step.a;
  const double factor = faster ? static_cast<double>(step.a) / static_cast<double>(step.b)
                               : static_cast<double>(step.b) / static_cast<double>(step.a);
  std::string words =
      fmt::format("{} is {} ({} instead of {})", capitalized(b), how_much(factor, faster),
                  format_seconds(seconds_of(step.b)), format_seconds(seconds_of(step.a)));
  const DiffRow* reason = main_reason(comparison.time);
  const std::string deed = reason != nullptr ? deed_of(*reason) : "";
  if (!deed.empty()) {
    words += fmt::format(", mostly because {} ({}{})", deed, reason->difference() < 0 ? "-" : "+",
                         format_seconds(seconds_of(std::abs(reason->difference()))));
  }
  return words;
}

std::string memory_words(const DiffTable& memory, const char* subject) {
  const std::int64_t difference = memory.total.difference();
  const double share = std::abs(static_cast<double>(difference)) /
                       std::max(1.0, static_cast<double>(memory.total.a));
  if (share < kLeastShare) return "";
  std::string words = fmt::format("; {} needs {} {} memory", subject,
                                  format_memory(std::abs(static_cast<double>(difference))),
                                  difference < 0 ? "less" : "more");
  const DiffRow* reason = main_reason(memory);
  if (reason != nullptr && reason->name != kOtherPart) {
    words += fmt::format(", mostly {} ({}{})", reason->name, reason->difference() < 0 ? "-" : "+",
                         format_memory(std::abs(static_cast<double>(reason->difference()))));
  }
  return words;
}

// Predictions tend to err one way: a band of measurements may not contain its own prediction.
bool leaves_itself_out(const RunSide& side) {
  return !side.is_measured() && side.band && !holds(side.band, side.step_ps);
}

// For a measurement: its place relative to the prediction.
std::string band_words(const RunComparison& comparison) {
  const RunSide& predicted = comparison.a.is_measured() ? comparison.b : comparison.a;
  if (comparison.verdict == BandVerdict::no_band || !predicted.band) return "";
  const char* const where = comparison.verdict == BandVerdict::within_band ? "within" : "outside";
  const std::string low = format_seconds(predicted.band->low_s);
  const std::string high = format_seconds(predicted.band->high_s);
  if (leaves_itself_out(predicted)) {
    return fmt::format(", {} the range of measured runs like it: {} to {}", where, low, high);
  }
  return fmt::format(", {} the prediction's error band ({} to {})", where, low, high);
}

// For two predictions: whether a measurement could show their difference.
std::string doubt_words(const RunComparison& comparison) {
  if (comparison.verdict != BandVerdict::within_band) return "";
  const std::optional<WorkChange>& work = comparison.work;
  const DiffRow& step = comparison.time.total;
  const bool same = work ? is_same_rate(*work) : step.a == step.b;
  if (same) return "";
  const bool shifted = leaves_itself_out(comparison.a) || leaves_itself_out(comparison.b);
  return fmt::format(
      "; the {} are within {}, so a measurement may not tell them apart",
      work ? "rates per GPU" : "times",
      shifted ? "the ranges of measured runs like each other's plan" : "each other's error band");
}

}  // namespace

std::string sentence_of(const RunComparison& comparison) {
  const bool measured = comparison.a.is_measured() || comparison.b.is_measured();
  std::string words = comparison.work ? work_words(*comparison.work, comparison.a, comparison.b)
                                      : time_words(comparison);
  if (!comparison.unlike.empty()) {
    words += ", but " + comparison.unlike;
  } else if (measured) {
    words += band_words(comparison);
  }
  const std::string goodput = measured ? "" : goodput_words(comparison.outcomes);
  words += goodput;
  if (comparison.memory) words += memory_words(*comparison.memory, goodput.empty() ? "it" : "B");
  if (!measured) words += doubt_words(comparison);
  return words + ".";
}

}  // namespace shardsim
