#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/communicator.hpp"
#include "backends/fiber/fold.hpp"

namespace shardsim {

/// The communicator of all ranks, for a rank that does not run. It only records how the rank splits
/// it. The results of splits can be split and dropped.
class SplitRecorder final : public Communicator {
 public:
  /// `choices`: gets one entry per split, and outlives this; null: nothing is recorded.
  SplitRecorder(int rank, int size, std::vector<SplitChoice>* choices)
      : rank_(rank), size_(size), choices_(choices) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] const std::string& name() const override;
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override;

  /// Throw an internal Error.
  Work post(const Call& call) override;
  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action, CallSite site) const override;

 private:
  int rank_;
  int size_;
  std::vector<SplitChoice>* choices_;
};

}  // namespace shardsim
