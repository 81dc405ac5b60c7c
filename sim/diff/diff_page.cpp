#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "reports/comparison_page.hpp"
#include "reports/html/markup.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"
#include "sim/diff/comparison.hpp"

// The page of `shardsim diff --report`: two to four sides, each compared with the first.
namespace shardsim {
namespace {

// How a number follows from the step: its band is then the step's.
enum class FollowsStep : std::uint8_t { no, in_proportion, inversely };

struct NumberRow {
  const MetricRow& metric;
  const char* name;
  std::string (*words)(double value);
  FollowsStep follows = FollowsStep::no;
};

std::string share_words(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string bytes_words(double bytes) { return format_memory(bytes); }

const NumberRow kNumbers[] = {
    {metric::kStepTimeS, "Step time", format_seconds},
    {metric::kTokensPerSPerGpu, "Tokens/s/GPU", format_number, FollowsStep::inversely},
    {metric::kMfu, "Model FLOPs utilization (MFU)", share_words, FollowsStep::inversely},
    {metric::kMemoryDeviceBytesMax, "Memory on the fullest GPU", bytes_words},
    {metric::kGoodputFraction, "Goodput", share_words},
    {metric::kCostDays, "Time to train", html::format_days, FollowsStep::in_proportion},
    {metric::kCostUsd, "Cost", html::format_usd, FollowsStep::in_proportion},
};

// "12.3 % less than A"; of a share too, as a share of A's.
std::string change_of(double of_a, double value, const std::string& letter) {
  if (!(of_a > 0)) return {};
  const double change = value / of_a - 1.0;
  const std::string percent = fmt::format("{:.1f}", 100 * std::abs(change));
  if (percent == "0.0") return "as " + letter;
  return fmt::format("{} % {} than {}", percent, change < 0 ? "less" : "more", letter);
}

const MetricBand* band_for(const RunSide& side, const MetricRow& metric) {
  const auto band = std::ranges::find(side.bands, std::string(metric.name), &MetricBand::metric);
  return band == side.bands.end() ? nullptr : &*band;
}

// The number at the centre of the step's band, as the run's own report has it.
void scale_to_band(const RunSide& side, const NumberRow& row, double value,
                   ComparedNumber& number) {
  const MetricBand* const band = band_for(side, metric::kStepTimeS);
  const auto step = side.metric(metric::kStepTimeS.name);
  if (band == nullptr || !step || row.follows == FollowsStep::no) return;
  const bool inversely = row.follows == FollowsStep::inversely;
  const auto at = [&](double other) {
    return row.words(inversely ? value * *step / other : value * other / *step);
  };
  number.value = "about " + at(band->centre);
  number.note = "by the model " + row.words(value) + "; " + at(inversely ? band->high : band->low) +
                " to " + at(inversely ? band->low : band->high);
}

ComparedNumber number_of(const RunSide& first, const RunSide& side, const NumberRow& row,
                         double value) {
  ComparedNumber number{row.name, row.words(value), "", ""};
  if (const MetricBand* const band = band_for(side, row.metric)) {
    number.value = band_centre(*band);
    number.note = by_the_model(*band, value) + "; " + band_held(*band) + ": " + band_range(*band);
  } else if (!side.is_measured()) {
    number.note = "by the model";
    scale_to_band(side, row, value, number);
  }
  const auto of_first = first.metric(row.metric.name);
  if (&first != &side && of_first) {
    number.change = change_of(*of_first, value, first.letter);
    if (!side.is_measured() && !first.is_measured()) number.change += ", by the model";
  }
  return number;
}

std::vector<ComparedNumber> numbers_of(const RunSide& first, const RunSide& side) {
  std::vector<ComparedNumber> numbers;
  for (const NumberRow& row : kNumbers) {
    std::optional<double> value = side.metric(row.metric.name);
    // A log has no metrics but its step.
    if (!value && &row == &kNumbers[0] && side.step_ps > 0) value = seconds_of(side.step_ps);
    if (value && std::isfinite(*value)) numbers.push_back(number_of(first, side, row, *value));
  }
  return numbers;
}

std::vector<ComparedPart> parts_of(const std::vector<Part>& parts, double unit) {
  std::vector<ComparedPart> compared;
  for (const Part& part : parts) {
    if (part.amount > 0) compared.push_back({part.name, static_cast<double>(part.amount) * unit});
  }
  return compared;
}

// Tensors, and what the device holds beside them. Categories that are the largest of different
// ranks do not sum to the peak of one: then tensors are one part.
std::vector<ComparedPart> memory_parts(const RunSide& side) {
  if (!side.peak_bytes) return {};
  const auto peak = static_cast<double>(*side.peak_bytes);
  std::vector<ComparedPart> parts = parts_of(side.memory, 1.0);
  double sum = 0;
  for (const ComparedPart& part : parts) sum += part.amount;
  if (sum != peak) parts = {{"tensors", peak}};
  const auto device = side.metric(metric::kMemoryDeviceBytesMax.name);
  if (device && *device > peak) parts.push_back({"allocator, CUDA, NCCL", *device - peak});
  return parts;
}

// "tp 8, pp 8, dp_shard 16, zero 1", of a side with a scenario; axes of one rank are left out.
std::string layout_words(const RunSide& side) {
  std::string words;
  for (const char* axis : {"tp", "pp", "cp", "ep", "dp_replicate", "dp_shard"}) {
    const std::string size = side.field(std::string("parallelism.") + axis);
    if (!size.empty() && size != "1") words += fmt::format("{} {}, ", axis, size);
  }
  const std::string zero = side.field("parallelism.zero_stage");
  const std::string batch = side.field("training.micro_batch_size");
  if (!zero.empty()) words += "zero " + zero;
  if (!batch.empty()) words += ", microbatch of " + batch;
  return words;
}

ComparedSide side_of(const RunSide& first, const RunSide& side) {
  ComparedSide compared;
  compared.letter = side.letter;
  compared.file = side.file;
  compared.what = side.what;
  compared.layout = layout_words(side);
  compared.step_s = seconds_of(side.step_ps);
  compared.numbers = numbers_of(first, side);
  compared.time = parts_of(side.time, seconds_of(1));
  compared.memory = memory_parts(side);
  compared.device_bytes = device_bytes_of(side);
  compared.bands = side.bands;
  if (side.fits) {
    compared.is_bad = !*side.fits;
    compared.verdict = compared.is_bad ? "does not fit" : "fits";
  }
  return compared;
}

// Fields that not all sides have alike; sides without any scenario are left empty.
std::vector<ComparedRow> field_rows(const std::vector<RunSide>& sides) {
  std::vector<const RunSide*> all;
  for (const RunSide& side : sides) all.push_back(&side);
  std::vector<ComparedRow> rows;
  for (const std::string& path : compared_fields(all)) {
    ComparedRow row{path, {}};
    std::set<std::string> distinct;
    for (const RunSide& side : sides) {
      row.values.push_back(side.field(path));
      if (!side.fields.empty()) distinct.insert(row.values.back());
    }
    if (distinct.size() > 1) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ComparedRow> traffic_rows(const std::vector<RunSide>& sides) {
  std::vector<ComparedRow> rows;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    for (const Part& part : sides[i].traffic) {
      if (part.amount == 0) continue;
      auto row = std::ranges::find(rows, part.name, &ComparedRow::name);
      if (row == rows.end()) {
        rows.push_back({part.name, std::vector<std::string>(sides.size())});
        row = rows.end() - 1;
      }
      row->values[i] = format_traffic(part.amount);
    }
  }
  return rows;
}

}  // namespace

ComparisonPage page_of(const std::vector<RunSide>& sides) {
  ComparisonPage page;
  page.title = fmt::format("{} runs compared", sides.size());
  for (std::size_t i = 0; i < sides.size(); ++i) {
    page.sides.push_back(side_of(sides.front(), sides[i]));
    for (const std::string& note : sides[i].notes) {
      page.notes.push_back(sides[i].letter + ": " + note);
    }
    if (i == 0) continue;
    const RunComparison comparison = compare(sides.front(), sides[i]);
    page.sentences.push_back(sentence_of(comparison));
    if (const std::string changes = different_trainings(comparison); !changes.empty()) {
      page.sentences.push_back(fmt::format(
          "A and {} are different trainings: {}. Tokens/s per GPU can be compared, steps cannot.",
          sides[i].letter, changes));
    }
  }
  page.fields = field_rows(sides);
  page.traffic = traffic_rows(sides);
  return page;
}

}  // namespace shardsim
