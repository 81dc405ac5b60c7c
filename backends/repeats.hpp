#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backends/tensor.hpp"

// Work that a rank does again and again, such as a layer of a model. A recorder need not run it
// each time: it knows the steps from before, and writes them down for other tensors.
namespace shardsim {

class Repeats {
 public:
  virtual ~Repeats() = default;

  /// Asks for a tensor, or tells something, by number. The steps of whoever answers are no part of
  /// the work: they are done each time.
  using Ask = std::function<Tensor(int question)>;

  struct Work {
    std::int64_t key = 0;               ///< Works with equal keys are expected to do the same.
    std::span<const Tensor> used = {};  ///< They outlive the work.
    /// Given to the work, and changed by it. Between works nobody looks into it but by show().
    std::vector<Tensor>& kept;
    bool is_last = false;  ///< One of those that end a step.
    /// Work that leaves something but tensors to another work, or takes it: the two have the same
    /// number, and are run both or neither. -1: none.
    std::int64_t pair = -1;
    bool is_first = true;       ///< The pair's.
    bool need_not_ask = false;  ///< No question has an effect now.
    Ask ask;
    /// Does it. The tensors that it makes are nobody else's.
    std::function<Tensor(const Ask& ask)> run;
  };

  /// Runs the work, or has its effects without running it.
  [[nodiscard]] virtual Tensor run(Work& work) = 0;
  /// The second work of a pair is run without this: the first one must have been.
  virtual void require_first_run(std::int64_t pair) = 0;
  /// The tensors that a work has kept are to be seen by somebody else.
  virtual void show(std::vector<Tensor>& kept) = 0;
};

}  // namespace shardsim
