#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/metric_rows.hpp"

#include "sim/diff/run_side.hpp"

namespace shardsim {

namespace {

constexpr double kNanosecondsPerMicrosecond = 1e3;
constexpr std::int64_t kPicosecondsPerNanosecond = 1000;
constexpr double kLargest = 9e18;  // In whole nanoseconds.

struct Interval {
  std::int64_t begin = 0;  // Nanoseconds.
  std::int64_t end = 0;
};
using Intervals = std::vector<Interval>;

// Sorted, and without overlaps.
Intervals merged(Intervals intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  Intervals result;
  for (const Interval& interval : intervals) {
    if (result.empty() || interval.begin > result.back().end) {
      result.push_back(interval);
    } else {
      result.back().end = std::max(result.back().end, interval.end);
    }
  }
  return result;
}

std::int64_t length_of(const Intervals& intervals) {
  std::int64_t sum = 0;
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

Intervals joined(Intervals one, const Intervals& other) {
  one.insert(one.end(), other.begin(), other.end());
  return merged(std::move(one));
}

// GPU events as Holistic Trace Analysis divides them: NCCL's kernels (and Gloo's) communicate,
// Memcpy and Memset move memory, all other kernels compute.
struct GpuWork {
  Intervals compute;
  Intervals communication;
  Intervals copies;
  std::set<std::string> steps;  // "ProfilerStep#12"
  std::int64_t rank = -1;
};

bool is_communication(const std::string& name) {
  return name.rfind("nccl", 0) == 0 || name.find("gloo:") != std::string::npos;
}

bool is_copy(const std::string& name) {
  return name.find("Memcpy") != std::string::npos || name.find("Memset") != std::string::npos;
}

// Picks the needed fields from the text as it streams by.
class TraceReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<std::string> keys;
  GpuWork work;
  bool failed = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool binary(binary_t&) override { return true; }

  bool string(string_t& value) override {
    if (!in_event()) return true;
    if (key_ == "ph") event_.phase = value;
    if (key_ == "cat") event_.category = value;
    if (key_ == "name") event_.name = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_++ == kEventDepth - 1 && in_events_) event_ = {};
    return true;
  }
  bool end_object() override {
    if (in_event()) take_event();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_++ == 1 && key_ == "traceEvents") in_events_ = true;
    return true;
  }
  bool end_array() override {
    if (--depth_ == 1) in_events_ = false;
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ == 1) {
      keys.push_back(value);
      section_ = value;
    }
    key_ = value;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    failed = true;
    return false;
  }

 private:
  static constexpr int kEventDepth = 3;  // Document, list of events, event.

  struct Event {
    std::string phase;
    std::string category;
    std::string name;
    double begin_us = -1.0;
    double duration_us = -1.0;
  };

  [[nodiscard]] bool in_event() const { return in_events_ && depth_ == kEventDepth; }

  bool number(double value) {
    if (in_event()) {
      if (key_ == "ts") event_.begin_us = value;
      if (key_ == "dur") event_.duration_us = value;
    } else if (depth_ == 2 && section_ == "distributedInfo" && key_ == "rank") {
      work.rank = static_cast<std::int64_t>(value);
    }
    return true;
  }

  void take_event() {
    const auto& [phase, category, name, begin_us, duration_us] = event_;
    if (category == "user_annotation" && name.starts_with("ProfilerStep#")) work.steps.insert(name);
    const bool on_gpu =
        category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset";
    const double end_ns = (begin_us + duration_us) * kNanosecondsPerMicrosecond;
    if (!on_gpu || phase != "X" || begin_us < 0.0 || duration_us < 0.0 || end_ns > kLargest) return;
    const std::int64_t begin = std::llround(begin_us * kNanosecondsPerMicrosecond);
    Intervals& kind = is_communication(name) ? work.communication
                      : is_copy(name)        ? work.copies
                                             : work.compute;
    kind.push_back({begin, begin + std::llround(duration_us * kNanosecondsPerMicrosecond)});
  }

  int depth_ = 0;
  bool in_events_ = false;
  std::string section_;
  std::string key_;
  Event event_;
};

// From the first start to the last end; divided by the steps in it.
RunSide side_of(const GpuWork& work) {
  const Intervals compute = merged(work.compute);
  const Intervals with_comm = joined(compute, work.communication);
  const Intervals busy = joined(with_comm, work.copies);
  RunSide side{.kind = SideKind::profiler_trace};
  const auto steps = static_cast<std::int64_t>(std::max<std::size_t>(1, work.steps.size()));
  const auto per_step = [&](std::int64_t ns) { return ns * kPicosecondsPerNanosecond / steps; };
  const std::int64_t communication = length_of(merged(work.communication));
  const std::int64_t exposed = length_of(with_comm) - length_of(compute);
  if (!busy.empty()) {
    side.step_ps = per_step(busy.back().end - busy.front().begin);
    side.time = {{kComputePart, per_step(length_of(compute))},
                 {kExposedPart, per_step(exposed)},
                 {kCopiesPart, per_step(length_of(busy) - length_of(with_comm))}};
    std::int64_t idle = side.step_ps;
    for (const Part& part : side.time) idle -= part.amount;
    side.time.push_back({kIdlePart, idle});
    side.metrics[metric::kStepTimeS.name] = seconds_of(side.step_ps);
    side.metrics[metric::kTimeComputeS.name] = seconds_of(side.time[0].amount);
    side.metrics[metric::kTimeExposedCommS.name] = seconds_of(side.time[1].amount);
    side.metrics[metric::kTimeHiddenCommS.name] = seconds_of(per_step(communication - exposed));
  }
  side.what = fmt::format("profiler trace{}, {} step{}",
                          work.rank >= 0 ? fmt::format(" of rank {}", work.rank) : "", steps,
                          steps == 1 ? "" : "s");
  if (work.steps.empty()) {
    side.notes.emplace_back("the trace marks no steps (ProfilerStep#): it is read as one step");
  }
  side.notes.emplace_back(
      "a trace is of one rank; what it idles may be a bubble, waiting for the host, or both");
  return side;
}

}  // namespace

JsonOutline outline_json(std::istream& text) {
  TraceReader reader;
  nlohmann::json::sax_parse(text, &reader, nlohmann::json::input_format_t::json, /*strict=*/true,
                            /*ignore_comments=*/true);
  JsonOutline outline{.is_json = !reader.failed, .keys = std::move(reader.keys)};
  if (outline.has("traceEvents")) outline.trace = side_of(reader.work);
  return outline;
}

}  // namespace shardsim
