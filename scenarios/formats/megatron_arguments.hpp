#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/source_text.hpp"

// Megatron-LM's arguments under the names of its own namespace ("tensor_model_parallel_size"), read
// from a run's log or from a command line, each with its place.
namespace shardsim {

struct MegatronArgument {
  std::string value;
  std::size_t offset = 0;
  std::size_t length = 0;
};

class MegatronArguments {
 public:
  explicit MegatronArguments(const SourceText& source, bool from_log)
      : source_(&source), from_log_(from_log) {}

  void add(const std::string& name, MegatronArgument argument);
  /// Logs have every argument, command lines only those that differ from Megatron's defaults.
  [[nodiscard]] bool from_log() const { return from_log_; }
  [[nodiscard]] bool empty() const { return arguments_.empty(); }

  // Nothing if it is missing or "None". Throw ScenarioError E1361 with the place of a value of
  // another type, or outside the range.
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name,
                                                    const ForeignRange& range);
  [[nodiscard]] std::optional<double> number(const std::string& name);
  [[nodiscard]] bool truth(const std::string& name, bool otherwise = false);
  [[nodiscard]] std::optional<std::string> text(const std::string& name);

  /// "" if it is not there.
  [[nodiscard]] std::string written(const std::string& name) const;
  /// Names that no reader has asked for.
  [[nodiscard]] std::vector<std::string> rest() const;
  [[nodiscard]] Span where(const std::string& name) const;
  [[nodiscard]] const SourceText& source() const { return *source_; }

 private:
  [[nodiscard]] const MegatronArgument* find(const std::string& name);

  const SourceText* source_;
  bool from_log_;
  std::map<std::string, MegatronArgument> arguments_;
  std::set<std::string> asked_;
};

/// Reads a log's block between the rulers "arguments" and "end of arguments", the last one if the
/// file has several. Otherwise it reads the flags in the text, a command line or a launch script.
/// Throws ScenarioError E1360 if there is neither.
[[nodiscard]] MegatronArguments read_megatron_arguments(const SourceText& source);

/// The lines of a run after its arguments.
struct MegatronRun {
  std::vector<double> step_ms;       ///< From the last run in the log.
  std::vector<double> tflops;        ///< Per GPU, if the run reports it.
  std::int64_t padded_vocab = 0;     ///< 0: not reported.
  std::int64_t rank_parameters = 0;  ///< On model-parallel rank (0, 0); 0: not reported.
};

[[nodiscard]] MegatronRun read_megatron_run(const std::string& text);

}  // namespace shardsim
