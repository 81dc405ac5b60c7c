#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/search/search_space.hpp"

// The candidates of a search as a product of choices. A space of any size is counted at once and
// takes little memory: its candidates are made one by one, where somebody asks for them.
//
// A block has all candidates with the same tp, cp and pp. In it, choices of data parallelism (ep,
// etp, dp_replicate, zero_stage) and of a batch (micro-batch, recomputation, schedule) are
// independent: each of the former goes with each of the latter.
namespace shardsim {

struct DataChoice {
  std::int64_t ep = 1;
  std::int64_t etp = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;
  int zero_stage = 0;

  /// Whether a rank has as large a part of a layer's experts, and of the same kind.
  [[nodiscard]] bool cuts_experts_as(const DataChoice& other) const {
    return ep == other.ep && etp == other.etp;
  }
};

struct ScheduleChoice {
  std::string_view schedule = "none";
  std::int64_t vpp = 1;
};

struct BatchChoice {
  std::int64_t micro_batch_size = 1;
  std::int64_t num_microbatches = 1;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  std::vector<ScheduleChoice> schedules;
  std::size_t first = 0;  ///< The number of candidates before it, for one choice of data.
};

/// All candidates with the same tp, cp and pp.
struct LayoutBlock {
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t pp = 1;
  std::vector<DataChoice> data;
  std::vector<BatchChoice> batches;
  std::size_t num_per_data = 0;  ///< Candidates for one choice of data.
  std::size_t first = 0;         ///< Index of its first candidate.

  [[nodiscard]] std::size_t num_candidates() const { return data.size() * num_per_data; }
};

/// A candidate of a block, as indices of its choices.
struct LayoutPlace {
  std::uint32_t block = 0;
  std::uint32_t batch = 0;
  std::uint32_t schedule = 0;
  std::uint32_t data = 0;
};

[[nodiscard]] Candidate with_data(Candidate candidate, const DataChoice& data);

/// For each ep and etp, a choice that needs no more memory than any with them: the most shards, and
/// the highest stage. It may be none of `data`, some choices of a block one after the other.
[[nodiscard]] std::vector<DataChoice> smallest_choices(std::span<const DataChoice> data);

class LayoutSpace {
 public:
  /// `base`: the model, the machine and the batch. Throws UsageError E1324 if no layout is legal.
  LayoutSpace(const Experiment& base, const FixedAxes& fixed);

  [[nodiscard]] const std::vector<LayoutBlock>& blocks() const { return blocks_; }
  [[nodiscard]] std::size_t num_candidates() const { return num_candidates_; }
  [[nodiscard]] Candidate candidate(const LayoutPlace& place) const;
  /// Its place in the order of enumerate_candidates().
  [[nodiscard]] std::size_t index(const LayoutPlace& place) const;

 private:
  std::vector<LayoutBlock> blocks_;
  std::size_t num_candidates_ = 0;
};

}  // namespace shardsim
