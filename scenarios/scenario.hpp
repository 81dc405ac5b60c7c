#pragma once

// A scenario: everything a run depends on, as plain typed values.
//
// `load_scenario` (scenarios/load.hpp) is the only producer. Its result is complete and valid:
// presets are merged, "auto" is replaced by a number, and every range and divisibility has been
// checked. Code that reads a Scenario therefore checks nothing again.
//
// Units are in the names; GB is 10^9 bytes and GiB is 2^30 bytes. Sizes are int64_t because the
// product of two of them is taken everywhere; the loader has checked those products.
// Every field has one row in scenarios/fields_*.cpp, which is where its range, default and
// meaning are written down for users.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/enumerations.hpp"
#include "scenarios/machine_spec.hpp"
#include "scenarios/training_spec.hpp"

namespace shardsim {

struct ExecutionSpec {
  TensorMode tensors = TensorMode::meta;
  std::int64_t steps = 1;
  std::int64_t seed = 1;
  std::string backend = "fiber";
  ReductionOrder reduction_order = ReductionOrder::rank;
  Algorithm all_reduce_algorithm{};  // automatic
  bool buffered_sends = false;
  std::string engine = "auto";  // auto, run, replay: how a plan's ranks are executed
  std::string fold = "off";     // off, auto, require: ranks that do the same are run once
  double memory_margin = 0.05;  // share of the device; a plan that leaves less gets a warning
};

/// The rent of the machine.
struct CostSpec {
  double usd_per_gpu_hour = 0;  // 0: not said
};

/// One line of "expect": the run fails (exit code 1) unless `metric op value` holds.
struct Expectation {
  std::string metric;
  CompareOp op = CompareOp::less_equal;
  double value = 0;
  /// The place of `metric` in the scenario's file; 0 for what a flag wrote.
  int line = 0;
  int column = 0;
};

/// Files to write; "" means none. Paths are relative and stay below the output directory.
struct OutputSpec {
  std::string report;
  std::string markdown;
  std::string csv;  // of the metrics; tables get names beside it
  std::string trace;
  std::string result;
  std::vector<std::int64_t> trace_ranks;  // increasing; "auto" is resolved here

  /// Whether a file shows more of the run than its result.
  [[nodiscard]] bool wants_detail() const {
    return !report.empty() || !markdown.empty() || !csv.empty();
  }
};

/// The source of one number of the model or the system.
struct NumberSource {
  std::string field;   // "system.device.memory_bandwidth_gb_per_s"
  std::string source;  // "NVIDIA H100 datasheet (SXM)", "assumed: ...", "given in the scenario"
};

/// A file from which the scenario was made, besides its own.
struct FileRead {
  std::string what;  // "a preset", "model.moe_popularity_file"
  std::string path;
};

struct PipelineSchedule;

struct Scenario {
  std::int64_t schema_version = 1;
  std::string name;
  ModelSpec model;
  SystemSpec system;
  ParallelismSpec parallelism;
  TrainingSpec training;
  ExecutionSpec execution;
  FaultSpec faults;
  CostSpec cost;
  std::vector<Expectation> expect;
  OutputSpec output;

  std::shared_ptr<const PipelineSchedule> own_schedule;  // of schedule "file"; null otherwise
  std::vector<NumberSource> sources;                     // in the order of the field table
  std::string resolved_json;  // this scenario with nothing left out; a fixed text
  std::vector<std::string> warnings;
  std::vector<FileRead> files;
  /// Paths of fields whose value somebody chose (not a default or a preset) and whose reads a run
  /// notes.
  std::vector<std::string> chosen;
  /// Required numbers of a machine: named only if they always lose against an unstated limit.
  std::vector<std::string> required;
};

}  // namespace shardsim
