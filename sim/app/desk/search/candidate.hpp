#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/mesh.hpp"
#include "strategies/model/make_model.hpp"

#include "scenarios/enumerations.hpp"

// One way to lay a training out on a machine: what a search decides.
namespace shardsim {

/// Values are those of the scenario's fields of the same names. What `schedule` refers to is of
/// static storage.
struct Candidate {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;
  std::int64_t ep = 1;
  std::int64_t vpp = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;
  std::int64_t micro_batch_size = 1;
  std::int64_t num_microbatches = 1;
  int zero_stage = 0;
  bool sequence_parallel = false;
  std::string_view schedule = "none";
  Recompute recompute = Recompute::none;

  [[nodiscard]] std::int64_t dp() const { return dp_replicate * dp_shard; }
  [[nodiscard]] std::int64_t num_stages() const { return pp * vpp; }
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// As `--set` takes them. What a reader can derive (dp_shard, num_microbatches) is left to him.
[[nodiscard]] std::vector<std::string> overrides_of(const Candidate& candidate);

/// "tp8 pp4 dp4 zero1 1f1b mb1 selective": what is 1, off or none is left out.
[[nodiscard]] std::string words_of(const Candidate& candidate);

[[nodiscard]] MeshShape mesh_shape_of(const Candidate& candidate, RankOrder order);

}  // namespace shardsim
