#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/harness/rank_context.hpp"

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

}  // namespace shardsim
