#include "sim/search/search_space.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/suggest.hpp"

namespace shardsim {
namespace {

// Words that an axis takes; none: it takes numbers.
std::vector<std::string> choices_of(const std::string& axis) {
  if (axis == "sequence_parallel") return {"true", "false"};
  if (axis == "recompute") return {kRecomputeNames.begin(), kRecomputeNames.end()};
  if (axis == "zero_stage") return {"0", "1", "2", "3"};
  if (axis != "schedule") return {};
  std::vector<std::string> names = {"none"};
  for (const std::string_view name : schedule_names()) names.emplace_back(name);
  return names;
}

// The word as candidates write it. Throws UsageError E1325 for a value that no candidate can have.
std::string value_of_axis(const std::string& axis, const std::string& word) {
  const std::vector<std::string> choices = choices_of(axis);
  if (choices.empty()) {
    const auto number = parse_number<std::int64_t>(word);
    if (number && *number > 0) return std::to_string(*number);
  } else if (std::ranges::find(choices, word) != choices.end()) {
    return word;
  }
  throw UsageError("E1325", fmt::format("{} cannot be \"{}\"", axis, word),
                   choices.empty() ? fmt::format("write whole numbers from 1, such as {}=2", axis)
                                   : help_for_word(lower_case(word), choices, "it is one of "));
}

}  // namespace

std::vector<std::string> overrides_of(const Candidate& candidate) {
  const auto set = [](const char* path, const auto& value) {
    return fmt::format("{}={}", path, value);
  };
  return {
      set("parallelism.tp", candidate.tp),
      set("parallelism.pp", candidate.pp),
      set("parallelism.cp", candidate.cp),
      set("parallelism.ep", candidate.ep),
      set("parallelism.etp", candidate.etp),
      set("parallelism.vpp", candidate.vpp),
      set("parallelism.dp_replicate", candidate.dp_replicate),
      set("parallelism.sequence_parallel", candidate.sequence_parallel),
      set("parallelism.schedule", candidate.schedule),
      set("parallelism.zero_stage", candidate.zero_stage),
      set("training.micro_batch_size", candidate.micro_batch_size),
      set("training.recompute", to_string(candidate.recompute)),
  };
}

std::string words_of(const Candidate& candidate) {
  std::string words;
  const auto add = [&words](const std::string& word) {
    words += (words.empty() ? "" : " ") + word;
  };
  const auto degree = [&add](const char* name, std::int64_t value) {
    if (value > 1) add(name + std::to_string(value));
  };
  degree("tp", candidate.tp);
  degree("cp", candidate.cp);
  degree("pp", candidate.pp);
  degree("ep", candidate.ep);
  degree("etp", candidate.etp);
  if (candidate.dp_replicate > 1) {
    add(fmt::format("dp{}x{}", candidate.dp_replicate, candidate.dp_shard));
  } else {
    degree("dp", candidate.dp_shard);
  }
  if (candidate.zero_stage > 0) add(fmt::format("zero{}", candidate.zero_stage));
  if (candidate.schedule != "none") add(std::string(candidate.schedule));
  degree("vpp", candidate.vpp);
  if (candidate.tp > 1 && !candidate.sequence_parallel) add("no-sp");
  add(fmt::format("mb{}", candidate.micro_batch_size));
  if (candidate.recompute != Recompute::none) add(to_string(candidate.recompute));
  return words;
}

MeshShape mesh_shape_of(const Candidate& candidate, RankOrder order) {
  return {.dp_shard = static_cast<int>(candidate.dp_shard),
          .dp_replicate = static_cast<int>(candidate.dp_replicate),
          .tp = static_cast<int>(candidate.tp),
          .pp = static_cast<int>(candidate.pp),
          .cp = static_cast<int>(candidate.cp),
          .ep = static_cast<int>(candidate.ep),
          .etp = static_cast<int>(candidate.etp),
          .order = order};
}

std::string help_for_word(const std::string& word, const std::vector<std::string>& names,
                          const char* all) {
  const std::string near = nearest(word, names);
  return (near.empty() ? "" : "did you mean \"" + near + "\"? ") + (all + one_of_list(names));
}

std::string lower_case(std::string word) {
  std::ranges::transform(word, word.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return word;
}

const std::vector<std::string>& axis_names() {
  static const std::vector<std::string> kNames = {"tp",
                                                  "pp",
                                                  "cp",
                                                  "ep",
                                                  "etp",
                                                  "vpp",
                                                  "dp_replicate",
                                                  "zero_stage",
                                                  "micro_batch_size",
                                                  "sequence_parallel",
                                                  "schedule",
                                                  "recompute"};
  return kNames;
}

void fix_axis(const std::string& words, FixedAxes& fixed) {
  const std::size_t equals = words.find('=');
  std::string axis = words.substr(0, equals);
  if (const std::size_t dot = axis.find('.'); dot != std::string::npos) axis.erase(0, dot + 1);
  const std::vector<std::string>& names = axis_names();
  if (equals == std::string::npos || std::ranges::find(names, axis) == names.end()) {
    const bool is_short = axis == "mb" || axis == "mbs";  // As layouts are printed, and users say.
    const std::string near = is_short ? "micro_batch_size" : nearest(axis, names);
    throw UsageError("E1325", "\"" + words + "\" is not an axis of the search",
                     (near.empty() ? "write AXIS=VALUE[,VALUE], AXIS one of "
                                   : "did you mean \"" + near + "\"? Axes are ") +
                         one_of_list(names));
  }
  std::vector<std::string> values;
  for (const std::string_view value : split_at(std::string_view(words).substr(equals + 1), ',')) {
    values.push_back(value_of_axis(axis, std::string(value)));
  }
  if (const auto before = fixed.find(axis); before != fixed.end()) {
    const std::string both =
        fmt::format("{},{}", fmt::join(before->second, ","), fmt::join(values, ","));
    throw UsageError("E1325",
                     fmt::format("{} is given twice: {}, and then {}", axis,
                                 fmt::join(before->second, ","), fmt::join(values, ",")),
                     fmt::format("give it once; --fix {}={} searches all of them", axis, both));
  }
  fixed[axis] = std::move(values);
}

}  // namespace shardsim
