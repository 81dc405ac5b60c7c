#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// One of the two compared runs, read from a result, from the log of a real run or from a trace of
// one. Times are whole picoseconds, so that differences add up exactly.
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
  std::string file;
  SideKind kind = SideKind::simulated;
  std::string what;  ///< "llama3-8b on 8 nodes", "median of 48 iterations".
  std::int64_t step_ps = 0;
  /// The parts of the step; they sum to it, or are empty if unknown.
  std::vector<Part> time;
  /// The memory of the fullest rank, and its categories; those of other ranks if they need more.
  std::optional<std::int64_t> peak_bytes;
  std::vector<Part> memory;
  std::vector<Part> traffic;  ///< By axis, all ranks together.
  std::map<std::string, double> metrics;
  std::optional<StepBand> band;
  std::map<std::string, std::string> fields;  ///< Fields of the resolved scenario, by path.
  std::vector<std::string> assumptions;
  std::vector<std::string> notes;

  [[nodiscard]] bool is_measured() const { return kind != SideKind::simulated; }
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

}  // namespace shardsim
