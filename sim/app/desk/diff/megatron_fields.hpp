#pragma once

#include <map>
#include <string>

// What a Megatron-LM log says of the run itself, so that it is not compared with any other.
namespace shardsim {

/// Finds the arguments of the last run in a log that reports iterations. Lines come in order.
class MegatronRunFinder {
 public:
  void read(const std::string& line);
  /// An iteration is reported. Returns whether it is the first one of a new run.
  [[nodiscard]] bool iterates();
  /// Model, GPUs, degrees and batch under the names of a scenario's fields, as far as told.
  [[nodiscard]] std::map<std::string, std::string> fields() const;

 private:
  std::string block_;  ///< Of the run whose iterations are read.
  std::string next_;   ///< Of one that has begun.
  bool inside_ = false;
};

}  // namespace shardsim
