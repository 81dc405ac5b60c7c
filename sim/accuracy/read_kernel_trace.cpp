#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/scenario_error.hpp"
#include "sim/accuracy/kernel_calibration.hpp"
#include "sim/accuracy/kernel_measurement.hpp"
#include "sim/accuracy/trace_operations.hpp"

// Kernels of a trace, and the operations that launched them. A kernel's correlation leads to its
// launch, and the time of the launch to the operations that were open in its thread; where launches
// are not recorded, the external id leads to the operation itself. In traces of before 2024 that id
// is the correlation, and leads to nothing.
namespace shardsim {

namespace {

using TraceJson = nlohmann::json;

struct TracedOp {
  std::string name;
  std::pair<std::string, std::string> thread;
  double begin_us = 0.0;
  double end_us = 0.0;
  TraceJson arguments;
};

struct TracedLaunch {
  std::pair<std::string, std::string> thread;
  double at_us = 0.0;
  bool is_graph = false;
};

struct TracedKernel {
  std::string name;
  double duration_us = 0.0;
  std::optional<std::int64_t> correlation;
  std::optional<std::int64_t> external;
};

struct TracedRun {
  std::vector<TracedOp> operations;
  std::map<std::int64_t, TracedLaunch> launches;  // By correlation.
  std::map<std::int64_t, std::size_t> external;   // Operations, by their external id.
  std::vector<TracedKernel> kernels;
};

std::string text_in(const TraceJson& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

std::optional<std::int64_t> whole_in(const TraceJson& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

double time_in(const TraceJson& json, const char* key) {
  const auto found = json.find(key);
  const double value = found != json.end() && found->is_number() ? found->get<double>() : -1.0;
  return value >= 0.0 && value < 1e18 ? value : -1.0;
}

// Process and thread, which are numbers or texts.
std::pair<std::string, std::string> thread_of(const TraceJson& event) {
  const auto shown = [&](const char* key) {
    const auto found = event.find(key);
    return found == event.end() ? std::string()
                                : found->dump(-1, ' ', true, TraceJson::error_handler_t::replace);
  };
  return {shown("pid"), shown("tid")};
}

void take_event(const TraceJson& event, TracedRun& run) {
  if (text_in(event, "ph") != "X") return;
  const std::string category = text_in(event, "cat");
  const auto found = event.find("args");
  const TraceJson arguments =
      found != event.end() && found->is_object() ? *found : TraceJson::object();
  const double begin_us = time_in(event, "ts");
  const double duration_us = time_in(event, "dur");
  if (category == "kernel") {
    if (duration_us < 0.0) return;
    run.kernels.push_back({text_in(event, "name"), duration_us, whole_in(arguments, "correlation"),
                           whole_in(arguments, "External id")});
  } else if (category == "cpu_op") {
    if (begin_us < 0.0 || duration_us < 0.0) return;
    if (const auto id = whole_in(arguments, "External id")) {
      run.external[*id] = run.operations.size();
    }
    run.operations.push_back(
        {text_in(event, "name"), thread_of(event), begin_us, begin_us + duration_us, arguments});
  } else if (category == "cuda_runtime" || category == "cuda_driver") {
    const auto correlation = whole_in(arguments, "correlation");
    if (!correlation || begin_us < 0.0) return;
    const bool is_graph = text_in(event, "name").find("GraphLaunch") != std::string::npos;
    run.launches[*correlation] = {thread_of(event), begin_us, is_graph};
  }
}

// Events are taken as they pass, and forgotten: a trace may be a hundred times as large as what is
// needed of it.
TracedRun traced_run(const std::string& text, const SourceText& source) {
  constexpr int kEventDepth = 2;
  TracedRun run;
  bool in_events = false;
  const auto take = [&](int depth, TraceJson::parse_event_t event, TraceJson& parsed) {
    if (event == TraceJson::parse_event_t::key && depth == 1) in_events = parsed == "traceEvents";
    if (event != TraceJson::parse_event_t::object_end || depth != kEventDepth || !in_events) {
      return true;
    }
    take_event(parsed, run);
    return false;
  };
  const TraceJson document = TraceJson::parse(text, take, /*allow_exceptions=*/false);
  if (document.is_discarded() || !document.is_object() || !document.contains("traceEvents")) {
    throw_problem("E0961", {&source, 0, 1}, "this is no trace of PyTorch's profiler",
                  "give what torch.profiler's export_chrome_trace writes, unpacked");
  }
  if (run.kernels.empty()) {
    throw_problem("E0961", {&source, 0, 1}, "there is no kernel in this trace",
                  "profile with ProfilerActivity.CPU and ProfilerActivity.CUDA");
  }
  return run;
}

// --- Who launched what -------------------------------------------------------------------------

class OpenOperations {
 public:
  explicit OpenOperations(const TracedRun& run) : run_(run) {
    for (std::size_t i = 0; i < run.operations.size(); ++i) {
      by_thread_[run.operations[i].thread].push_back(i);
    }
    for (auto& [thread, operations] : by_thread_) {
      std::ranges::stable_sort(operations, {}, [&](std::size_t i) {
        const TracedOp& operation = run.operations[i];
        return std::pair(operation.begin_us, -operation.end_us);
      });
      std::vector<std::size_t> open;
      for (const std::size_t i : operations) {
        while (!open.empty() && run.operations[open.back()].end_us <= run.operations[i].begin_us) {
          open.pop_back();
        }
        if (!open.empty()) parents_[i] = open.back();
        open.push_back(i);
      }
    }
  }

  // The operations that were open, the innermost first; none if the trace does not say it.
  [[nodiscard]] std::vector<std::size_t> of(const TracedKernel& kernel) const {
    std::optional<std::size_t> innermost;
    if (kernel.correlation && run_.launches.contains(*kernel.correlation)) {
      innermost = open_at(run_.launches.at(*kernel.correlation));
    } else if (kernel.external && run_.external.contains(*kernel.external)) {
      innermost = run_.external.at(*kernel.external);
    }
    std::vector<std::size_t> open;
    while (innermost) {
      open.push_back(*innermost);
      const auto parent = parents_.find(*innermost);
      innermost = parent == parents_.end() ? std::nullopt : std::optional(parent->second);
    }
    return open;
  }

 private:
  [[nodiscard]] std::optional<std::size_t> open_at(const TracedLaunch& launch) const {
    const auto thread = by_thread_.find(launch.thread);
    if (thread == by_thread_.end()) return std::nullopt;
    const std::vector<std::size_t>& operations = thread->second;
    const auto after = std::ranges::upper_bound(
        operations, launch.at_us, {}, [&](std::size_t i) { return run_.operations[i].begin_us; });
    if (after == operations.begin()) return std::nullopt;
    std::optional<std::size_t> open = *(after - 1);
    while (open && run_.operations[*open].end_us < launch.at_us) {
      const auto parent = parents_.find(*open);
      open = parent == parents_.end() ? std::nullopt : std::optional(parent->second);
    }
    return open;
  }

  const TracedRun& run_;
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> by_thread_;
  std::map<std::size_t, std::size_t> parents_;
};

// --- Shapes ------------------------------------------------------------------------------------

// The inputs of an operation, as record_shapes=True has them.
TraceInputs inputs_of(const TraceJson& arguments) {
  TraceInputs inputs;
  if (const auto dims = arguments.find("Input Dims"); dims != arguments.end() && dims->is_array()) {
    inputs.are_recorded = true;
    for (const TraceJson& input : *dims) {
      std::vector<std::int64_t>& sizes = inputs.dims.emplace_back();
      if (!input.is_array()) continue;
      for (const TraceJson& size : input) {
        constexpr std::int64_t kMostSize = std::int64_t{1} << 24;
        const bool is_size = size.is_number_integer() && size >= 1 && size <= kMostSize;
        sizes.push_back(is_size ? size.get<std::int64_t>() : 0);
      }
    }
  }
  const auto texts = [&](const char* key, std::vector<std::string>& to) {
    const auto found = arguments.find(key);
    if (found == arguments.end() || !found->is_array()) return;
    for (const TraceJson& each : *found) {
      to.push_back(each.is_string() ? each.get<std::string>() : std::string());
    }
  };
  texts("Input type", inputs.types);
  texts("Concrete Inputs", inputs.values);
  return inputs;
}

// --- Rows --------------------------------------------------------------------------------------

// All kernels that one call launched for its own operation.
struct TracedCall {
  TracedMatch match;
  double seconds = 0.0;
};

class TraceMatcher {
 public:
  TraceMatcher(const TracedRun& run, KernelTrace& trace) : run_(run), open_(run), trace_(trace) {}

  std::vector<TracedCall> match() {
    for (const TracedKernel& kernel : run_.kernels) take(kernel);
    std::vector<TracedCall> calls;
    for (auto& [operation, call] : calls_) calls.push_back(std::move(call));
    std::ranges::stable_sort(unmatched_, std::ranges::greater(), &UnmatchedKernels::seconds);
    trace_.unmatched = std::move(unmatched_);
    return calls;
  }

 private:
  void take(const TracedKernel& kernel) {
    const double seconds = kernel.duration_us * 1e-6;
    ++trace_.kernels;
    trace_.seconds += seconds;
    const KernelRole role = role_of_kernel(kernel.name);
    if (role == KernelRole::communication) {
      trace_.communication_seconds += seconds;
      return;
    }
    std::string why = words_of(role);
    if (is_priced(role)) {
      for (const std::size_t place : open_.of(kernel)) {
        const TracedOp& operation = run_.operations[place];
        if (!is_traced_operation(operation.name, role)) continue;
        const TracedMatch match = match_of(operation.name, inputs_of(operation.arguments));
        if (match.why.empty()) return add(place, match, seconds);
        return leave(kernel.name, match.why, seconds);
      }
      const bool is_in_graph = kernel.correlation && run_.launches.contains(*kernel.correlation) &&
                               run_.launches.at(*kernel.correlation).is_graph;
      why += is_in_graph ? " in a CUDA graph, whose operations a trace does not have"
                         : ", launched by no operation whose inputs are known here";
    }
    leave(kernel.name, why, seconds);
  }

  void add(std::size_t place, const TracedMatch& match, double seconds) {
    TracedCall& call = calls_[place];
    call.match = match;
    call.seconds += seconds;
    trace_.matched.at(static_cast<std::size_t>(match.operation)) += seconds;
  }

  void leave(const std::string& name, const std::string& why, double seconds) {
    const auto [place, is_new] = places_.emplace(std::pair(name, why), unmatched_.size());
    if (is_new) unmatched_.push_back({.name = name, .why = why});
    UnmatchedKernels& found = unmatched_[place->second];
    ++found.calls;
    found.seconds += seconds;
  }

  const TracedRun& run_;
  OpenOperations open_;
  KernelTrace& trace_;
  std::map<std::size_t, TracedCall> calls_;  // By operation.
  std::vector<UnmatchedKernels> unmatched_;
  std::map<std::pair<std::string, std::string>, std::size_t> places_;
};

double median_of(std::vector<double> values) {
  const auto middle = static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, values.begin() + middle);
  return values[static_cast<std::size_t>(middle)];
}

// A run computes few shapes many times: a row is a shape, with the median of its calls. Where there
// are too few shapes to hold some out, it is a call.
void add_rows(const std::vector<TracedCall>& calls, KernelTrace& trace) {
  std::map<std::pair<KernelOperation, std::string_view>, std::vector<const TracedCall*>> groups;
  for (const TracedCall& call : calls) {
    groups[{call.match.operation, name_of(call.match.precision)}].push_back(&call);
  }
  const auto add = [&](const TracedCall& call, double seconds) {
    trace.rows.push_back({.operation = call.match.operation,
                          .precision = call.match.precision,
                          .work = call.match.work,
                          .seconds = seconds,
                          .library = call.match.library});
  };
  for (const auto& [key, members] : groups) {
    std::vector<std::vector<const TracedCall*>> shapes;
    for (const TracedCall* call : members) {
      const auto same = std::ranges::find_if(shapes, [&](const auto& shape) {
        const ComputeOp& work = shape.front()->match.work;
        return work.shape == call->match.work.shape && work.flops == call->match.work.flops &&
               work.bytes == call->match.work.bytes;
      });
      (same == shapes.end() ? shapes.emplace_back() : *same).push_back(call);
    }
    const bool are_many = shapes.size() >= kLeastKernelRows;
    for (const auto& shape : shapes) {
      std::vector<double> seconds;
      for (const TracedCall* call : shape) seconds.push_back(call->seconds);
      if (are_many) add(*shape.front(), median_of(seconds));
    }
    if (!are_many) {
      for (const TracedCall* call : members) add(*call, call->seconds);
    }
    trace.notes.push_back(
        fmt::format("{} in {}: {} calls of {} shape{}; {}", name_of(key.first), key.second,
                    members.size(), shapes.size(), shapes.size() == 1 ? "" : "s",
                    are_many ? "a row is a shape, with the median of its calls"
                             : "a row is a call, and rows held out tell nothing of others"));
  }
}

}  // namespace

bool looks_like_trace(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

KernelTrace parse_kernel_trace(const std::string& text, const std::string& file) {
  const SourceText source{file, text};
  KernelTrace trace{.file = file};
  const TracedRun run = traced_run(text, source);
  add_rows(TraceMatcher(run, trace).match(), trace);
  return trace;
}

}  // namespace shardsim
