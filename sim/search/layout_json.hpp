#pragma once

#include <nlohmann/json_fwd.hpp>

#include "reports/result.hpp"
#include "sim/search/simulate_layout.hpp"

// A layout as a program reads it: the same members wherever a JSON file has one.
namespace shardsim {

/// "layout" in words, "fields" by the names of the scenario.
void add_layout(nlohmann::ordered_json& json, const Candidate& candidate);

/// The same, and "metrics" by the names that a result has, all by the model.
void add_point(nlohmann::ordered_json& json, const SimulatedPoint& point);

/// "error_bands" by metric, and "no_error_band", a reason, where there are none.
void add_bands(nlohmann::ordered_json& json, const Result& measured);

/// Calls visit(name, value) for each field of a layout, in the order of all files.
template <class Visit>
void for_each_field(const Candidate& candidate, Visit visit) {
  visit("tp", candidate.tp);
  visit("pp", candidate.pp);
  visit("cp", candidate.cp);
  visit("ep", candidate.ep);
  visit("etp", candidate.etp);
  visit("vpp", candidate.vpp);
  visit("dp_replicate", candidate.dp_replicate);
  visit("dp_shard", candidate.dp_shard);
  visit("zero_stage", candidate.zero_stage);
  visit("sequence_parallel", candidate.sequence_parallel);
  visit("schedule", candidate.schedule);
  visit("micro_batch_size", candidate.micro_batch_size);
  visit("num_microbatches", candidate.num_microbatches);
  visit("recompute", to_string(candidate.recompute));
}

}  // namespace shardsim
