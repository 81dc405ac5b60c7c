#include "scenarios/sweep_block.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/metric_table.hpp"

#include "scenarios/suggest.hpp"
#include "scenarios/sweep_axis.hpp"

namespace shardsim {

namespace {

class SweepReader {
 public:
  explicit SweepReader(ProblemList& problems) : problems_(problems) {}

  SweepBlock read(const JsonValue& block) {
    if (!block.is_object()) {
      problems_.add("E1305", block.span, kPointer,
                    "\"sweep\" must be an object, not " + describe(block),
                    "such as {\"axes\": {\"parallelism.tp\": [1, 2, 4]}}");
      return {};
    }
    for (const JsonMember& member : block.object()) {
      const std::string pointer = pointer_to(kPointer, member.key);
      if (member.key == "axes") {
        read_axes(member.value, pointer);
      } else if (member.key == "zip") {
        read_zip(member.value, pointer);
      } else if (member.key == "skip") {
        read_skip(member.value, pointer);
      } else if (member.key == "objectives") {
        read_objectives(member.value, pointer);
      } else {
        const std::string near = nearest(member.key, {"axes", "zip", "skip", "objectives"});
        problems_.add("E1305", member.key_span, pointer,
                      "unknown key \"" + printable(member.key, 40) + "\" in \"sweep\"",
                      R"(the keys here are "axes", "zip", "skip" and "objectives")",
                      near.empty() ? "" : "did you mean \"" + near + "\"?");
      }
    }
    check_dimensions(sweep_, block.span, problems_);
    return std::move(sweep_);
  }

 private:
  static constexpr const char* kPointer = "/sweep";

  bool require(bool holds, const JsonValue& value, const std::string& pointer, const char* wanted) {
    if (holds) return true;
    problems_.add("E1305", value.span, pointer,
                  "\"" + pointer.substr(pointer.rfind('/') + 1) + "\" must be " + wanted +
                      ", not " + describe(value));
    return false;
  }

  void read_axes(const JsonValue& axes, const std::string& pointer) {
    if (!require(axes.is_object(), axes, pointer, "an object")) return;
    for (const JsonMember& member : axes.object()) {
      sweep_.dimensions.push_back({read_axis(member, pointer_to(pointer, member.key), problems_)});
    }
  }

  void read_zip(const JsonValue& zip, const std::string& pointer) {
    if (!require(zip.is_array(), zip, pointer, "a list of objects")) return;
    for (std::size_t i = 0; i < zip.array().size(); ++i) {
      read_group(zip.array()[i], pointer_to(pointer, std::to_string(i)));
    }
  }

  void read_group(const JsonValue& group, const std::string& pointer) {
    if (!require(group.is_object() && !group.object().empty(), group, pointer,
                 "an object with axes that go together")) {
      return;
    }
    SweepDimension dimension;
    for (const JsonMember& member : group.object()) {
      dimension.push_back(read_axis(member, pointer_to(pointer, member.key), problems_));
      const SweepAxis& first = dimension.front();
      const SweepAxis& last = dimension.back();
      if (first.values.empty() || last.values.empty()) continue;  // Reported already.
      if (first.values.size() != last.values.size()) {
        problems_.add("E1304", member.value.span, pointer_to(pointer, member.key),
                      fmt::format("\"{}\" has {} values, but \"{}\" beside it has {}", last.path,
                                  last.values.size(), first.path, first.values.size()),
                      "axes of one zip group go together value by value");
        return;
      }
    }
    sweep_.dimensions.push_back(std::move(dimension));
  }

  void read_skip(const JsonValue& skip, const std::string& pointer) {
    static const std::vector<std::string> kMaySkip = {"invalid", "out_of_memory", "failed"};
    if (!require(skip.is_array(), skip, pointer, "a list")) return;
    for (const JsonValue& item : skip.array()) {
      const bool known = item.is_string() && std::find(kMaySkip.begin(), kMaySkip.end(),
                                                       item.string()) != kMaySkip.end();
      if (known) {
        sweep_.skip.insert(item.string());
        continue;
      }
      const std::string near = item.is_string() ? nearest(item.string(), kMaySkip) : "";
      problems_.add(
          "E1305", item.span, pointer,
          "points cannot be skipped for being " +
              (item.is_string() ? "\"" + printable(item.string(), 40) + "\"" : describe(item)),
          "one of " + one_of_list(kMaySkip), near.empty() ? "" : "did you mean \"" + near + "\"?");
    }
  }

  void read_objectives(const JsonValue& objectives, const std::string& pointer) {
    if (!require(objectives.is_array(), objectives, pointer, "a list")) return;
    for (const JsonValue& item : objectives.array()) {
      if (require(item.is_string(), item, pointer, "a list of texts")) {
        read_objective(item, pointer);
      }
    }
  }

  void read_objective(const JsonValue& item, const std::string& pointer) {
    const std::string& text = item.string();
    const std::string sense = text.substr(0, text.find(' '));
    const std::string metric = sense.size() < text.size() ? text.substr(sense.size() + 1) : "";
    const std::vector<std::string>& known = metrics_to_expect();
    if ((sense != "max" && sense != "min") || metric.empty()) {
      problems_.add(
          "E1305", item.span, pointer,
          "an objective is \"max METRIC\" or \"min METRIC\", not \"" + printable(text, 40) + "\"",
          fmt::format("for example \"max {}\"", metric::kTokensPerSPerGpu.name));
    } else if (std::find(known.begin(), known.end(), metric) == known.end()) {
      const std::string near = nearest(metric, known);
      problems_.add("E1305", item.span, pointer,
                    "there is no metric \"" + printable(metric, 40) + "\"",
                    "docs/guide/scenario-reference.md lists all",
                    near.empty() ? "" : "did you mean \"" + near + "\"?");
    } else {
      sweep_.objectives.push_back({sense == "max", metric});
    }
  }

  ProblemList& problems_;
  SweepBlock sweep_;
};

}  // namespace

std::size_t SweepBlock::num_points() const {
  std::size_t points = dimensions.empty() ? 0 : 1;
  for (const SweepDimension& dimension : dimensions) {
    const std::size_t values = dimension.front().values.size();
    // Far above what is allowed, and far below an overflow.
    points = std::min(points, 2 * kMaxSweepPoints) * std::min(values, 2 * kMaxSweepPoints);
  }
  return points;
}

SweepBlock read_sweep(const JsonValue& block, ProblemList& problems) {
  return SweepReader(problems).read(block);
}

void check_dimensions(const SweepBlock& sweep, const Span& where, ProblemList& problems) {
  std::set<std::string> paths;
  for (const SweepDimension& dimension : sweep.dimensions) {
    for (const SweepAxis& axis : dimension) {
      if (!paths.insert(axis.path).second) {
        problems.add("E1303", where, "/sweep", "\"" + axis.path + "\" is an axis twice",
                     "leave one of them out");
      }
    }
  }
  if (sweep.num_points() > kMaxSweepPoints) {
    problems.add("E1306", where, "/sweep",
                 fmt::format("the sweep has more than {} points", kMaxSweepPoints),
                 "take fewer values, or put axes that go together into a \"zip\" group");
  }
}

JsonValue take_sweep(JsonValue& document) {
  JsonObject& members = document.object();
  const auto found = std::find_if(members.begin(), members.end(),
                                  [](const JsonMember& member) { return member.key == "sweep"; });
  if (found == members.end()) return JsonValue{nullptr, {}};
  JsonValue block = std::move(found->value);
  members.erase(found);
  return block;
}

}  // namespace shardsim
