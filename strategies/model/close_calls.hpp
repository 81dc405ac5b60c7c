#pragma once

#include <cstddef>
#include <vector>

// A model takes some decisions by numbers that rounding moves: ReLU by the sign of an input, a
// router by the order of logits. Where it is close, rounding alone decides, and gradients follow.
// The oracle must know how the ranks decided.
namespace shardsim {

/// The decisions of this thread's forward passes, in their order.
class CloseCalls {
 public:
  struct Decided {
    std::vector<bool> above;  ///< For each input of ReLU: whether it counts as above 0.
    std::vector<std::vector<int>> experts;  ///< For each token: all experts, the best first.
  };
  /// By what they are decided.
  struct Numbers {
    std::vector<double> inputs;
    std::vector<std::vector<double>> logits;
    std::size_t experts_per_token = 0;
  };

  /// Only notes.
  CloseCalls();
  /// Decisions are these, whatever the numbers are. They must outlive the pass.
  explicit CloseCalls(const Decided& decided);
  ~CloseCalls();
  CloseCalls(const CloseCalls&) = delete;
  CloseCalls& operator=(const CloseCalls&) = delete;

  /// Whether the next input of ReLU counts as above 0.
  [[nodiscard]] bool is_above(double input);
  /// All experts for the next token, the best first; the first `count` are used. `ranking` is that
  /// by its logits.
  [[nodiscard]] std::vector<int> rank(const std::vector<double>& logits, std::vector<int> ranking,
                                      std::size_t count);

  [[nodiscard]] const Numbers& numbers() const { return numbers_; }
  [[nodiscard]] const Decided& decisions() const { return decisions_; }
  /// The instance active in this thread; null: the numbers decide.
  [[nodiscard]] static CloseCalls* active();

 private:
  const Decided* given_ = nullptr;
  Numbers numbers_;
  Decided decisions_;
  CloseCalls* before_;
};

}  // namespace shardsim
