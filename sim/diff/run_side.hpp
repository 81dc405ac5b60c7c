#pragma once

#include <algorithm>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/run/run.hpp"

// One of the two compared runs, read from a result, from the log of a real run or from a trace of
// one. Times are whole picoseconds, so that differences add up exactly. Below stand the readers of
// all kinds of file that `shardsim diff` takes.
namespace shardsim {

enum class SideKind { simulated, measured_result, megatron_log, profiler_trace };

/// A part of a whole: "compute", "activations", "tp".
struct Part {
  std::string name;
  std::int64_t amount = 0;  ///< Picoseconds, or bytes.
};

struct StepBand {
  double low_s = 0.0;
  double high_s = 0.0;
};

struct RunSide {
  std::string letter;  ///< "A", "B", ...: compare() gives A and B to sides without one.
  std::string file;
  SideKind kind = SideKind::simulated;
  std::string what;  ///< "llama3-8b on 8 nodes", "median of 48 iterations".
  std::int64_t step_ps = 0;
  /// The parts of the step; they sum to it, or are empty if unknown.
  std::vector<Part> time;
  /// The memory of the fullest rank, and its categories; those of other ranks if they need more.
  std::optional<std::int64_t> peak_bytes;
  std::vector<Part> memory;
  std::optional<bool> fits;   ///< Whether its memory was enough; nothing if that is unknown.
  std::vector<Part> traffic;  ///< By axis, all ranks together.
  std::map<std::string, double> metrics;
  std::optional<StepBand> band;
  std::vector<MetricBand> bands;              ///< Around the step and the memory on the device.
  std::map<std::string, std::string> fields;  ///< Fields of the resolved scenario, by path.
  std::vector<std::string> assumptions;
  std::vector<std::string> notes;

  [[nodiscard]] bool is_measured() const { return kind != SideKind::simulated; }
  /// Nothing if the side does not have it.
  [[nodiscard]] std::optional<double> metric(const std::string& name) const {
    const auto found = metrics.find(name);
    return found == metrics.end() ? std::nullopt : std::optional(found->second);
  }
  /// Empty if it is not there.
  [[nodiscard]] std::string field(const std::string& path) const {
    const auto found = fields.find(path);
    return found == fields.end() ? "" : found->second;
  }
};

// Names of parts that several readers and writers share.
inline constexpr const char* kComputePart = "compute";
inline constexpr const char* kExposedPart = "exposed comm";
inline constexpr const char* kBubblePart = "bubble";
inline constexpr const char* kHostPart = "host";
inline constexpr const char* kCopiesPart = "copies";
inline constexpr const char* kIdlePart = "idle";
inline constexpr const char* kOtherPart = "other";
inline constexpr const char* kUntoldPart = "not told apart";

[[nodiscard]] std::int64_t picoseconds_of(double seconds);
[[nodiscard]] double seconds_of(std::int64_t picoseconds);

/// The log of a Megatron-LM run (training_log in megatron/training/training.py, report_memory in
/// megatron/training/utils.py): the median of its iterations but for the first ones, and the
/// largest of its memory reports. Nothing if no line has the time of an iteration.
[[nodiscard]] std::optional<RunSide> read_megatron_log(std::istream& log);

/// The content of a JSON text, as far as its first level shows it.
struct JsonOutline {
  bool is_json = false;
  std::vector<std::string> keys;
  /// The trace, if it is one: GPU events by what they do, as Holistic Trace Analysis divides them.
  std::optional<RunSide> trace;

  [[nodiscard]] bool has(const std::string& key) const {
    return std::ranges::find(keys, key) != keys.end();
  }
};

/// Reads the text once, whatever its size, and keeps of it no more than intervals.
[[nodiscard]] JsonOutline outline_json(std::istream& text);

/// The path of a result.json, a scenario (which is run, with the overrides), a Megatron-LM run's
/// log, or a PyTorch profiler's trace. Throws ScenarioError for a wrong scenario, and UsageError
/// for a file that is none of these (E1341) or has no step time (E1342).
struct SideRequest {
  std::string path;
  std::vector<std::string> overrides;
  bool measured = false;  ///< For a result: its measured values, if it has any.
};
[[nodiscard]] RunSide read_side(const SideRequest& request, const RunHooks& hooks);

/// Makes a run from a result as JSON.
[[nodiscard]] RunSide side_of_result(const std::string& json, const std::string& file,
                                     bool measured);

}  // namespace shardsim
