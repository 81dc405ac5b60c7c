#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/mesh.hpp"
#include "strategies/model/make_model.hpp"

#include "scenarios/enumerations.hpp"

// One layout of a training on a machine: the decisions of a search.
namespace shardsim {

/// Values are those of the scenario's fields of the same names. `schedule` refers to static
/// storage.
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

/// As `--set` takes them. The reader derives the others (dp_shard, num_microbatches).
[[nodiscard]] std::vector<std::string> overrides_of(const Candidate& candidate);

/// "tp8 pp4 dp4 zero1 1f1b mb1 selective": fields that are 1, off or none are left out.
[[nodiscard]] std::string words_of(const Candidate& candidate);

[[nodiscard]] MeshShape mesh_shape_of(const Candidate& candidate, RankOrder order);

}  // namespace shardsim
