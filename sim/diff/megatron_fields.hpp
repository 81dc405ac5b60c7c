#pragma once

#include <map>
#include <string>

// The setting of a run in its Megatron-LM log, so that different runs are not compared.
namespace shardsim {

/// Finds the arguments of the last run in a log that reports iterations. Lines come in order.
class MegatronRunFinder {
 public:
  void read(const std::string& line);
  /// Called for a reported iteration. Returns whether it is the first one of a new run.
  [[nodiscard]] bool iterates();
  /// Model, GPUs, degrees and batch under the names of a scenario's fields, as far as known.
  [[nodiscard]] std::map<std::string, std::string> fields() const;

 private:
  std::string block_;  ///< The arguments of the run whose iterations are read.
  std::string next_;   ///< Those of a run that has begun.
  bool inside_ = false;
};

}  // namespace shardsim
