#include "tests/harness/corpus/hint_rows.hpp"

#include <algorithm>
#include <utility>

#include "tests/harness/corpus/program.hpp"

namespace shardsim::corpus {

namespace {

using Truths = std::vector<std::string>;

constexpr int kHintRanks = 3;

HintRow row_with(const char* id, const char* bug, NumberBug number_bug, const char* code,
                 Truths truths) {
  Row row{.id = id,
          .bug = bug,
          .program = [number_bug](RankContext& context,
                                  const Plant& plant) { train_linear(context, plant, number_bug); },
          .code = code,
          .culprits = all(),
          .who = Who::every,
          .options = {.ranks = {kHintRanks}}};
  row.options.explore.mode = ExploreMode::none;
  return {std::move(row), std::move(truths)};
}

std::vector<HintRow> output_rows() {
  using enum NumberBug;
  return {
      row_with("H01", "output: times ranks", output_scaled, "OUT_DIFF", {"a sum is not divided"}),
      row_with("H02", "output: sign", output_negated, "OUT_DIFF", {"opposite sign"}),
      row_with("H03", "output: next row", output_shifted, "OUT_DIFF", {"shifted by 1 element"}),
      row_with("H04", "output: next row on the last rank", output_shifted_on_last, "OUT_DIFF",
               {"shifted by 1 element"}),
      row_with("H05", "output: of the step before", output_stale, "OUT_DIFF", {"step before"}),
      row_with("H06", "output: halves of parts swapped", output_halves, "OUT_DIFF",
               {"halves are swapped"}),
      row_with("H07", "output: partial products", output_not_reduced, "OUT_DIFF",
               {"parts of a sum"}),
      row_with("H08", "loss: times ranks", loss_times_ranks, "OUT_DIFF", {"a sum is not divided"}),
      row_with("H09", "loss: over ranks", loss_over_ranks, "OUT_DIFF", {"a mean is taken twice"}),
      row_with("H10", "loss: doubled", loss_doubled, "OUT_DIFF", {"applied twice"}),
      row_with("H11", "loss: sign", loss_negated, "OUT_DIFF", {"opposite sign"}),
      row_with("H12", "loss: of the step before", loss_stale, "OUT_DIFF", {"step before"}),
      row_with("H13", "loss: own part", loss_local, "OUT_DIFF", {"parts of a sum"}),
      row_with("H14", "loss: mean of means", loss_mean_of_means, "OUT_DIFF", {"mean of means"}),
      row_with("H15", "loss: doubled, uneven parts", loss_doubled_uneven, "OUT_DIFF",
               {"applied twice"}),
      row_with("H16", "loss: without the last rank's", loss_without_last, "OUT_DIFF",
               {"rank {last} adds only zeros", "a contribution is missing"}),
  };
}

std::vector<HintRow> norm_rows() {
  using enum NumberBug;
  return {
      row_with("H17", "norm: own shard", norm_local, "NORM_DIFF",
               {"sum squares over all shards", "parts of a sum of squares"}),
      row_with("H18", "norm: no root", norm_squared, "NORM_DIFF", {"the square of"}),
      row_with("H19", "norm: copies counted", norm_of_copies, "NORM_DIFF",
               {"count what is replicated once"}),
      row_with("H20", "norm: of the step before", norm_stale, "NORM_DIFF", {"step before"}),
      row_with("H21", "norm: squares averaged", norm_averaged, "NORM_DIFF",
               {"0.577 times", "averaged"}),
      row_with("H22", "norm: without the bias", norm_without_bias, "NORM_DIFF",
               {"without the gradient of bias"}),
      row_with("H23", "norm: last rank alone", norm_without_last, "NORM_DIFF",
               {"sum squares over all shards", "the reduction between them is missing"}),
  };
}

std::vector<HintRow> gradient_rows() {
  using enum NumberBug;
  const char* const missing = "a contribution is missing, doubled or weighted wrongly";
  return {
      row_with("H24", "gradient: times ranks", gradient_times_ranks, "GRAD_SCALE",
               {"a sum is not divided"}),
      row_with("H25", "gradient: sign", gradient_negated, "GRAD_SCALE", {"opposite sign"}),
      row_with("H26", "gradient: bias doubled", gradient_bias_doubled, "GRAD_SCALE",
               {"made twice", "applied twice"}),
      row_with("H27", "gradient: next in the bucket", gradient_shifted, "GRAD_DIFF",
               {"shifted by 1 element"}),
      row_with("H28", "gradient: of the step before", gradient_stale, "GRAD_DIFF", {"step before"}),
      row_with("H29", "gradient: halves swapped", gradient_halves, "GRAD_DIFF",
               {"halves are swapped"}),
      row_with("H30", "gradient: without the last rank's", gradient_without_last, "GRAD_DIFF",
               {"rank {last} adds only zeros", missing}),
      row_with("H31", "gradient: last rank alone", gradient_last_alone, "REPLICA_DIVERGED",
               {"the reduction between them is missing", "parts of a sum"}),
      row_with("H32", "gradient: doubled, uneven parts", gradient_doubled_uneven, "GRAD_SCALE",
               {"made twice", "applied twice"}),
      row_with("H33", "gradient: mean of means", gradient_mean_of_means, "GRAD_DIFF",
               {"mean of means"}),
      row_with("H34", "gradient: last rank's twice", gradient_last_twice, "GRAD_DIFF",
               {"rank {last} is weighted 2.000 times", missing}),
  };
}

std::vector<HintRow> parameter_rows() {
  using enum NumberBug;
  const char* const update = "look at the update";
  return {
      row_with("H35", "parameter: gathered before the update", parameter_stale, "PARAM_STALE",
               {"step before", "after the update"}),
      row_with("H36", "parameter: sign of the update", parameter_update_negated, "STATE_DIFF",
               {"opposite sign", update}),
      row_with("H37", "parameter: read one behind", parameter_shifted, "STATE_DIFF",
               {"shifted by 1 element", "the order of elements"}),
      row_with("H38", "parameter: shards of both ranks swapped", parameter_halves, "STATE_DIFF",
               {"halves are swapped", "the order of elements"}),
      row_with("H39", "parameter: update times ranks", parameter_update_scaled, "STATE_DIFF",
               {"3.000 times", update}),
      row_with("H40", "parameter: last shard without update", parameter_part_stale, "PARAM_STALE",
               {"step before", update}),
  };
}

}  // namespace

std::vector<HintRow> hint_rows() {
  std::vector<HintRow> all;
  for (const std::vector<HintRow>& some :
       {output_rows(), norm_rows(), gradient_rows(), parameter_rows()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  for (auto& [row, _] : all) {
    row.file = file_of_training();
    if (row.id == "H04") row.culprits = last(), row.who = Who::first;
    if (row.id == "H38") row.options.ranks = {2};
  }
  return all;
}

std::string judge_hint(const HintRow& row, int ranks, const Diagnosis& found) {
  const auto says = [&](const std::string& text) {
    return std::ranges::any_of(row.truths, [&](std::string truth) {
      const std::string last = "{last}";
      const std::size_t at = truth.find(last);
      if (at != std::string::npos) truth.replace(at, last.size(), std::to_string(ranks - 1));
      return text.find(truth) != std::string::npos;
    });
  };
  if (!found.hint.empty() && !says(found.hint)) return "wrong";
  return says(found.summary + " " + found.hint) ? "right" : "none";
}

}  // namespace shardsim::corpus
