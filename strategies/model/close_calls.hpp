#pragma once

#include <cstddef>
#include <map>
#include <vector>

// A model takes some decisions by numbers that rounding moves: ReLU by the sign of an input, a
// clipped gate by its limit, a router by the order of logits. Where it is close, rounding alone
// decides, and gradients follow. The oracle must know how the ranks decided.
namespace shardsim {

/// The decisions of a pass of this thread, by module, in the order of its forward.
class CloseCalls {
 public:
  /// The calls of one module.
  struct Calls {
    std::vector<double> inputs;  ///< The numbers that ReLU sees, or excess over a limit.
    std::vector<bool> above;     ///< Whether each counts as above 0.
    // By choice: of a token's groups of experts, if there are any, and of its experts.
    std::vector<std::vector<double>> logits;  ///< Numbers that are compared, one for each.
    std::vector<std::vector<int>> ranking;    ///< All that may be chosen, the best first.
    std::vector<std::size_t> used;            ///< How many of a ranking are chosen.
  };
  using Modules = std::map<int, Calls>;

  /// Numbers decide.
  CloseCalls();
  /// Decisions of modules up to `last` are those `given`, whatever the numbers are; then numbers
  /// decide. `given` must outlive the pass.
  CloseCalls(const Modules& given, int last);
  ~CloseCalls();
  CloseCalls(const CloseCalls&) = delete;
  CloseCalls& operator=(const CloseCalls&) = delete;

  /// The following calls belong to this module's forward.
  void forward(int module);
  /// The following calls belong to this module's backward. If it computes the forward again, it
  /// decides as before.
  void backward(int module);

  /// Whether the next input of ReLU counts as above 0.
  [[nodiscard]] bool is_above(double input);
  /// All candidates of the next choice, the best first; the first `count` are used. `ranking` is
  /// that by their logits. Decisions among other candidates do not hold: with another
  /// group, a token has other experts to choose from.
  [[nodiscard]] std::vector<int> rank(const std::vector<double>& logits, std::vector<int> ranking,
                                      std::size_t count);

  [[nodiscard]] const Modules& modules() const { return modules_; }
  /// The instance active in this thread; null: numbers decide.
  [[nodiscard]] static CloseCalls* active();

 private:
  // The decision of a call before, or by what is given; null: numbers decide.
  [[nodiscard]] const Calls* decided() const;

  const Modules* given_ = nullptr;
  int last_ = 0;
  Modules modules_;
  int module_ = 0;
  bool is_again_ = false;
  std::size_t next_input_ = 0;
  std::size_t next_token_ = 0;
  CloseCalls* before_;
};

}  // namespace shardsim
