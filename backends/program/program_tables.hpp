#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/program/program.hpp"

namespace shardsim {

/// Finds the numbers of rows by their hashes: open addressing, and no row ever goes.
class RowIndex {
 public:
  /// The number of a row with this hash that `is_equal` takes. If there is none, `next` is the
  /// number of a new row.
  template <class IsEqual>
  std::uint32_t find_or_add(std::uint64_t hash, std::size_t next, const IsEqual& is_equal) {
    if (2 * (num_rows_ + 1) > places_.size()) grow();
    for (std::size_t i = hash & (places_.size() - 1);; i = (i + 1) & (places_.size() - 1)) {
      Place& place = places_[i];
      if (place.row == kNone) {
        place = {hash, static_cast<std::uint32_t>(next)};
        ++num_rows_;
        return place.row;
      }
      if (place.hash == hash && is_equal(place.row)) return place.row;
    }
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Place {
    std::uint64_t hash = 0;
    std::uint32_t row = kNone;
  };
  void grow();

  std::vector<Place> places_;  // A power of two.
  std::size_t num_rows_ = 0;
};

/// The rows that steps name: equal rows have one number, so that programs with the same tables are
/// equal where their steps are.
class ProgramTables {
 public:
  ProgramTables() = default;
  ProgramTables(const ProgramTables&) = delete;
  ProgramTables& operator=(const ProgramTables&) = delete;

  [[nodiscard]] const ComputeOp& operation(std::uint32_t row) const { return operations_[row]; }
  [[nodiscard]] const ProgramAllocation& allocation(std::uint32_t row) const {
    return allocations_[row];
  }
  [[nodiscard]] const ProgramCall& call(std::uint32_t row) const { return calls_[row]; }
  [[nodiscard]] const ProgramTally& tally(std::uint32_t row) const { return tallies_[row]; }
  [[nodiscard]] const ProgramMark& mark(std::uint32_t row) const { return marks_[row]; }
  [[nodiscard]] const ProgramHole& hole(std::uint32_t row) const { return holes_[row]; }
  [[nodiscard]] const ProgramPlace& place(std::uint32_t row) const { return places_[row]; }
  [[nodiscard]] std::size_t num_operations() const { return operations_.size(); }
  [[nodiscard]] std::size_t num_holes() const { return holes_.size(); }
  [[nodiscard]] std::size_t num_allocations() const { return allocations_.size(); }
  [[nodiscard]] std::size_t num_calls() const { return calls_.size(); }
  [[nodiscard]] std::size_t num_tallies() const { return tallies_.size(); }
  [[nodiscard]] std::size_t num_marks() const { return marks_.size(); }
  [[nodiscard]] std::size_t num_places() const { return places_.size(); }

  // Each returns the number of an equal row, new or not.
  std::uint32_t add(const ComputeOp& op);
  std::uint32_t add(const ProgramAllocation& allocation);
  std::uint32_t add(ProgramTally tally);
  std::uint32_t add(const ProgramMark& mark);
  /// `group`: the program's.
  std::uint32_t add(int group, const Call& call);
  std::uint32_t add(ProgramHole hole);
  std::uint32_t add(ProgramPlace place);
  /// A call that nobody makes now: of a file, or of another tables' program. Its hashes are those
  /// of its label and counts, whatever it says.
  std::uint32_t add(ProgramCall call);
  /// An equal text that lives as long as the tables.
  const char* keep(const char* text);

 private:
  // These two are asked for at each step: no deque, so references to them last until the next add.
  std::vector<ComputeOp> operations_;
  std::vector<ProgramAllocation> allocations_;
  std::deque<ProgramHole> holes_;
  std::deque<ProgramCall> calls_;
  std::deque<ProgramTally> tallies_;
  std::deque<ProgramMark> marks_;
  std::deque<ProgramPlace> places_;
  std::set<std::string, std::less<>> texts_;
  std::deque<std::pair<const char*, const char*>> kept_;  // By address, and the equal text.
  RowIndex operation_index_;
  RowIndex hole_index_;
  RowIndex allocation_index_;
  RowIndex call_index_;
  RowIndex tally_index_;
  RowIndex mark_index_;
  RowIndex place_index_;
  RowIndex kept_index_;
};

}  // namespace shardsim
