#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/harness/rank_context.hpp"

// The tensors that ranks have shown: as they came, and in order.
namespace shardsim {

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
  /// Forgets all that was shown.
  void clear();
  /// For names of factors: the groups that ranks made, each name once for each size.
  void set_groups(std::vector<std::pair<std::string, int>> groups) { groups_ = std::move(groups); }

  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  [[nodiscard]] const std::vector<std::pair<std::string, int>>& groups() const { return groups_; }
  /// Whether ranks have different parts of the batch.
  [[nodiscard]] bool shares_differ() const;

 private:
  std::vector<Piece> pieces_;
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
  const char* hint;
};
[[nodiscard]] const ShownRow& row_of(Shown what);

}  // namespace shardsim
