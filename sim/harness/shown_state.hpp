#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "sim/harness/rank_context.hpp"

// The tensors that ranks have shown: as they came, and in order.
namespace shardsim {

class ReductionLog;

/// The tensors that all ranks of one run have shown, in any order.
class ShownState {
 public:
  struct Piece {
    Shown what = Shown::output;
    std::string name;
    int step = 0;
    int microbatch = -1;
    int rank = 0;
    std::int64_t first = 0;
    std::int64_t whole = 0;
    std::vector<double> values;
    CallSite site;

    [[nodiscard]] std::int64_t end() const {
      return first + static_cast<std::int64_t>(values.size());
    }
  };

  void add(Piece piece) { pieces_.push_back(std::move(piece)); }
  void add_share(int rank, std::int64_t samples);
  /// Takes the tensors that `other` shows from there, and keeps the others.
  void replace_by(const ShownState& other);
  [[nodiscard]] std::size_t num_tensors() const;
  /// Tensors that replace_by() has brought.
  [[nodiscard]] std::size_t num_replaced() const { return num_replaced_; }
  /// Forgets all that was shown.
  void clear();
  /// For names of factors: the groups that ranks made, each name once for each size.
  void set_groups(std::vector<std::pair<std::string, int>> groups) { groups_ = std::move(groups); }

  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  [[nodiscard]] const std::vector<std::pair<std::string, int>>& groups() const { return groups_; }
  /// Ranks and their parts of the batch, as far as they told.
  [[nodiscard]] const std::vector<std::pair<int, std::int64_t>>& shares() const { return shares_; }

 private:
  std::vector<Piece> pieces_;
  std::size_t num_replaced_ = 0;
  std::vector<std::pair<int, std::int64_t>> shares_;  // Rank and samples, summed up.
  std::vector<std::pair<std::string, int>> groups_;
};

/// One tensor of one step, from all ranks that have a part of it.
struct ShownTensor {
  Shown what = Shown::output;
  std::string name;
  int step = 0;
  int microbatch = -1;
  std::vector<const ShownState::Piece*> pieces;  ///< By rank, then as shown.

  /// Elements of the whole, as the first piece has it.
  [[nodiscard]] std::int64_t whole() const { return pieces.front()->whole; }
  /// By element; of several ranks' values the lowest rank's. Elements that nobody has are 0.
  [[nodiscard]] std::vector<double> values() const;
  /// Calls `visit(at, value)` for each shown value, with its place in the whole.
  template <class Visit>
  void for_each_value(const Visit& visit) const {
    for (const ShownState::Piece* piece : pieces) {
      auto at = static_cast<std::size_t>(piece->first);
      for (const double& value : piece->values) visit(at++, value);
    }
  }
  /// "gradient of w, step 2, microbatch 1".
  [[nodiscard]] std::string describe() const;
};

/// The shown tensors: causes before their effects.
class ShownTable {
 public:
  /// Tensors of a step and kind come in the order in which `order` has them, others behind.
  ShownTable(const ShownState& shown, const ShownState& order);

  [[nodiscard]] const std::vector<ShownTensor>& tensors() const { return tensors_; }
  /// Null if there is none.
  [[nodiscard]] const ShownTensor* find(const ShownTensor& like, int step) const;
  /// Largest element of all tensors of a kind.
  [[nodiscard]] double largest(Shown what) const;

 private:
  std::vector<ShownTensor> tensors_;
  std::map<Shown, double> largest_;
};

/// A kind of tensors, as reports speak of it.
struct ShownRow {
  Shown what;
  const char* words;  ///< "gradient of", "norm": the tensor's name follows.
  const char* code;   ///< If it differs, and its ranks' values do not tell more.
  const char* hint;   ///< True of every difference of the kind; empty if there is no such sentence.
};
[[nodiscard]] const ShownRow& row_of(Shown what);

// --- Comparison --------------------------------------------------------------------------------
// Compares a shown tensor with its reference, and the ranks that show its elements.

/// A tensor and its reference.
class Comparison {
 public:
  /// Elements may differ by `bound`. `reference` has as many.
  Comparison(const ShownTensor& tensor, const ShownTensor& reference, double bound)
      : tensor_(tensor), wanted_(reference.values()), bound_(bound) {}

  [[nodiscard]] const std::vector<double>& wanted() const { return wanted_; }
  [[nodiscard]] double bound() const { return bound_; }
  [[nodiscard]] bool close(double a, double b) const;
  [[nodiscard]] bool right(const ShownState::Piece& piece) const;
  [[nodiscard]] bool all_right() const;
  /// Number of the first element of `piece` that differs; its size if none does.
  [[nodiscard]] std::int64_t first_wrong(const ShownState::Piece& piece) const;
  /// The ranks whose part differs, and where the first one does.
  [[nodiscard]] DiagnosisSide wrong_side() const;
  /// The largest error of all, in bounds.
  [[nodiscard]] double largest_excess() const;

 private:
  const ShownTensor& tensor_;
  std::vector<double> wanted_;
  double bound_;
};

/// One rank, its action and the place of its call.
[[nodiscard]] DiagnosisSide side_of(const ShownState::Piece& piece, std::string action);
/// A diagnosis of the ranks that have shown `tensor`: "gradient of w, step 0 <what>".
[[nodiscard]] Diagnosis begin_diagnosis(const char* code, const ShownTensor& tensor,
                                        const std::string& what,
                                        std::vector<DiagnosisSide> sides = {},
                                        std::string hint = {});

/// Elements that nobody shows, or some more often than others.
[[nodiscard]] std::optional<Diagnosis> judge_cover(const ShownTensor& tensor,
                                                   const ShownTensor& reference);
/// Whether ranks show an element with different values, and the diagnosis of that.
[[nodiscard]] bool diverge(const ShownTensor& tensor, const Comparison& comparison);
[[nodiscard]] Diagnosis explain_divergence(const ShownTensor& tensor, const Comparison& comparison,
                                           const std::string& what, const std::string& hint);

// --- Judging -----------------------------------------------------------------------------------
// Names a difference by its usual cause (docs/decisions/0039-harness.md has the table).

struct JudgeOptions {
  /// Bound on an element's error, relative to the largest element of the tensor, or to 1e-6 of the
  /// largest of its kind.
  double tolerance = 1e-9;
  /// Below fp64: the reference in fp64. Errors are then distances from it. Ten times the
  /// reference's own error is allowed ...
  const ShownState* exact = nullptr;
  DType precision = DType::fp64;
  /// ... and a larger error up to this tensor's noise (ProgramNoise::of), which takes more runs.
  std::function<double(const ShownTensor&)> noise = {};
  /// The log of what ranks have put into reductions, which takes one more run.
  std::function<const ReductionLog*()> reductions = {};
};

/// The root difference of the first step that has one; nothing if there is none.
[[nodiscard]] std::optional<Diagnosis> judge(const ShownState& shown, const ShownState& reference,
                                             const JudgeOptions& options);

}  // namespace shardsim
