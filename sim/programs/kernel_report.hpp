#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel/time.hpp"

#include "backends/program/program.hpp"

#include "sim/programs/program_replay.hpp"

// The computing of one rank, as its kernels are priced: by operator, by module and by stream. Each
// of the three adds up to the same time.
namespace shardsim {

/// The source of a price.
enum class KernelPrice : std::uint8_t {
  family,     ///< The kernels of its family.
  flops,      ///< A product of unknown shape.
  bytes,      ///< Only the bytes that it reads and writes: nothing else is known of it.
  host_link,  ///< A transfer to or from the host.
  recorded,   ///< Nothing: its time is the recorded one.
};
/// "family".
[[nodiscard]] const char* name_of(KernelPrice price);

struct KernelTime {
  std::int64_t kernels = 0;  ///< As many as the machine's software makes of the operations.
  std::int64_t bytes = 0;    ///< Read and written by those that only move data.
  Time time;

  void add(const KernelTime& more) {
    kernels += more.kernels;
    bytes += more.bytes;
    time += more.time;
  }
};

struct KernelsOfOperator {
  std::string name;
  KernelPrice price = KernelPrice::family;
  KernelTime sum;
};

/// Its own kernels, without those of its parts.
struct KernelsOfModule {
  std::string path;  ///< As recorded. "": of no module.
  ProgramPlace::Phase phase = ProgramPlace::Phase::none;
  KernelTime sum;
};

/// All in the last step, or in all of the program where no steps are marked.
struct KernelReport {
  int rank = 0;
  KernelTime all;
  Time by_bytes;  ///< The part of it that is priced by bytes alone.
  /// Stream 0 computes so much longer than its kernels' prices: beside collectives, and by faults
  /// that are drawn.
  Time slower;
  std::vector<KernelsOfOperator> operators;  ///< The longest first.
  std::vector<KernelsOfModule> modules;      ///< By path.
  std::vector<KernelTime> streams;           ///< By stream.

  [[nodiscard]] bool knows_modules() const;
};

/// That of the rank that ends last.
[[nodiscard]] KernelReport kernels_of(const ProgramSet& set, const ProgramReplayOptions& options,
                                      const ProgramReplay& replay);

/// A path in which numbers of layers are "*".
[[nodiscard]] std::string folded(const std::string& path);

/// The same modules of several layers.
struct KernelsOfLayers {
  std::string path;  ///< Folded.
  ProgramPlace::Phase phase = ProgramPlace::Phase::none;
  std::int64_t modules = 0;
  KernelTime sum;
};
[[nodiscard]] std::vector<KernelsOfLayers> layers_of(const KernelReport& report);

/// The top rows for people.
[[nodiscard]] std::string kernels_text(const KernelReport& report);

}  // namespace shardsim
