#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

// Traces as readers see them that are not ours: protoc and nlohmann's JSON. Reading ends the test
// where a trace contradicts itself: an event of a track that nobody described, a thread described
// twice, a counter's value on a thread.
namespace shardsim::test {

/// One process, as a reader has seen it.
struct Process {
  std::string name;
  std::map<std::string, int> slices;           ///< Per stream: those that have ended.
  std::map<std::string, int> counters;         ///< Per counter: how often it was set.
  std::int64_t bytes_sent = 0;                 ///< Sum over all slices.
  std::int64_t peak_bytes = 0;                 ///< The most that all counters together ever said.
  std::map<std::string, int> open;             ///< Per stream: slices begun and not ended.
  std::map<std::string, std::int64_t> in_use;  ///< Per counter: what it said last.

  void begin(const std::string& stream, std::int64_t bytes) {
    ++open[stream];
    bytes_sent += bytes;
  }
  void end(const std::string& stream) {
    --open[stream];
    ++slices[stream];
  }
  void count(const std::string& counter, std::int64_t bytes) {
    ++counters[counter];
    in_use[counter] = bytes;
    std::int64_t sum = 0;
    for (const auto& [name_of_it, size] : in_use) sum += size;
    peak_bytes = std::max(peak_bytes, sum);
  }
  [[nodiscard]] bool all_ended() const {
    return std::all_of(open.begin(), open.end(), [](const auto& each) { return each.second == 0; });
  }
  bool operator==(const Process&) const = default;
};
using Processes = std::map<std::int64_t, Process>;  ///< By process id.

/// Reads the bytes of a Perfetto trace, by way of `protoc --decode_raw`.
[[nodiscard]] Processes read_perfetto(const std::string& bytes);
/// Reads a trace in Chrome's JSON.
[[nodiscard]] Processes read_chrome(const std::string& text);

}  // namespace shardsim::test
