#include "tests/verdicts/planted_bugs.hpp"

#include <algorithm>
#include <utility>

#include "sim/run/run.hpp"

#include "tests/mutants/bucket_faults.hpp"
#include "tests/mutants/context_faults.hpp"
#include "tests/mutants/expert_faults.hpp"
#include "tests/mutants/faulty_communicator.hpp"
#include "tests/mutants/message_faults.hpp"
#include "tests/mutants/shifted_mask.hpp"
#include "tests/mutants/wrong_numbers.hpp"

namespace shardsim::test {

namespace {

constexpr std::int64_t kKernelWidth = 8;  // Elements that a kernel takes at a time.

using MakesFaults = std::function<Faults()>;
using PicksCalls = bool (*)(const SeenCall&);

Result run_planted(const Scenario& scenario, Faults faults) {
  return run_scenario(scenario, {.wrap_world = plant(std::move(faults))}).result;
}

// Faults count their calls, so each run needs its own.
PlantedBug planted(std::string name, const MakesFaults& make, int steps = 1) {
  return {std::move(name), steps,
          [make](const Scenario& scenario) { return run_planted(scenario, make()); }};
}

bool is_of_dense_buckets(const std::string& group) {
  return group.starts_with("dp") && !group.ends_with("experts");
}

// The faults of collectives in groups of dense buckets alone: sums of other groups, and experts'
// buckets of the same name, are as they were.
Faults in_dense_buckets(const Faults& all) {
  Faults faults;
  if (all.all_reduce) {
    faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                            const CallOptions& options, CallSite site) {
      if (is_of_dense_buckets(caller.to.name())) {
        return all.all_reduce(caller, buffer, op, options, site);
      }
      return caller.to.all_reduce(buffer, op, options, site);
    };
  }
  if (all.reduce_scatter) {
    faults.reduce_scatter = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                                ReduceOp op, const CallOptions& options, CallSite site) {
      if (is_of_dense_buckets(caller.to.name())) {
        return all.reduce_scatter(caller, output, input, op, options, site);
      }
      return caller.to.reduce_scatter(output, input, op, options, site);
    };
  }
  if (all.all_gather) {
    faults.all_gather = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                            const CallOptions& options, CallSite site) {
      if (is_of_dense_buckets(caller.to.name())) {
        return all.all_gather(caller, output, input, options, site);
      }
      return caller.to.all_gather(output, input, options, site);
    };
  }
  return faults;
}

bool reduces_buckets(const SeenCall& call) {
  return call.is_reduction() && call.is_of_buckets() && is_of_dense_buckets(call.group);
}
bool reduces_to_replicas(const SeenCall& call) {
  return reduces_buckets(call) && call.group == "dp_replicate";
}
bool fills_buckets(const SeenCall& call) {
  return reduces_buckets(call) && call.group != "dp_replicate";
}
bool reduces_whole_buckets(const SeenCall& call) {
  return reduces_buckets(call) && call.kind == SeenKind::all_reduce;
}
bool scatters_buckets(const SeenCall& call) {
  return reduces_buckets(call) && call.kind == SeenKind::reduce_scatter;
}
bool gathers_buckets(const SeenCall& call) {
  return call.kind == SeenKind::all_gather && call.is_of_buckets() &&
         is_of_dense_buckets(call.group);
}
bool reduces_experts(const SeenCall& call) {
  return call.is_reduction() && call.group.ends_with("_experts");
}
bool counts_targets(const SeenCall& call) { return call.label == "target_count"; }
bool tells_loss(const SeenCall& call) { return call.label == "loss"; }
bool passes_keys(const SeenCall& call) {
  return call.kind == SeenKind::batch && call.label == "keys and values";
}
bool passes_keys_of_many(const SeenCall& call) { return passes_keys(call) && call.size > 2; }
bool any_reduction(const SeenCall& call) { return call.is_reduction() && call.is_of_buckets(); }

struct FixedBug {
  const char* name;
  PicksCalls concerns;
  MakesFaults make;
  int steps = 1;
};

MakesFaults of_dense_buckets(Faults (*make)()) {
  return [make] { return in_dense_buckets(make()); };
}

Faults dropped_rest() { return dropped_tail(kKernelWidth); }

std::vector<FixedBug> fixed_bugs() {
  return {
      {"the loss is a mean of the ranks' means", counts_targets, mean_of_means},
      {"the told loss is summed twice", tells_loss, loss_summed_twice},
      {"gradients are averaged twice", reduces_buckets, of_dense_buckets(double_averaging)},
      {"buckets are reduced twice", reduces_whole_buckets, of_dense_buckets(reduced_twice)},
      {"gradients are reduced by maximum", reduces_buckets, of_dense_buckets(reduced_by_max)},
      {"gradients of rank 0 count twice", fills_buckets, of_dense_buckets(own_part_twice)},
      {"replicas are not reduced", reduces_to_replicas, no_replicate_reduction},
      {"gradients of experts are not reduced", reduces_experts, no_expert_reduction},
      {"weights are gathered late", gathers_buckets, of_dense_buckets(stale_gather), 2},
      {"weights are gathered once", gathers_buckets, of_dense_buckets(gathered_once), 3},
      {"buckets are scattered one element off", scatters_buckets,
       of_dense_buckets(shifted_reduce_scatter)},
      {"shards are gathered one element off", gathers_buckets, of_dense_buckets(shifted_gather)},
      {"a bucket is reduced before its first copy", fills_buckets,
       of_dense_buckets(read_before_first_copy)},
      {"a bucket is reduced before its next copy", fills_buckets,
       of_dense_buckets(read_before_next_copy), 2},
      {"a bucket is cleared in flight", fills_buckets, of_dense_buckets(freed_in_flight)},
      {kDroppedRest, any_reduction, dropped_rest},
      {"keys and values go round the other way", passes_keys_of_many, keys_from_behind},
  };
}

// Names of bugs of one label, each with what makes its faults.
struct LabelledBug {
  const char* name;
  Faults (*make)(const std::string& label);
};

void add_bugs_of(std::vector<PlantedBug>& bugs, const std::string& label,
                 std::initializer_list<LabelledBug> rows) {
  for (const LabelledBug& row : rows) {
    const auto make = row.make;
    // Biases of routers, and scales from the past, act in later steps.
    const bool acts_later = label == "router loads" || label == "largest elements";
    const int steps = acts_later ? 5 : 1;
    bugs.push_back(planted(
        row.name + label, [=] { return make(label); }, steps));
  }
}

// Whatever a model's layers, its stages and its ranks say to each other, by its name.
void add_labelled_bugs(std::vector<PlantedBug>& bugs, const SeenCall& call) {
  switch (call.kind) {
    case SeenKind::all_reduce:
    case SeenKind::reduce_scatter:
      if (!call.is_of_buckets()) add_bugs_of(bugs, call.label, {{"no sum of ", dropped_reduction}});
      return;
    case SeenKind::all_gather:
      if (!call.is_of_buckets() && call.is_payload) {
        add_bugs_of(bugs, call.label, {{"no gather of ", dropped_gather}});
      }
      return;
    case SeenKind::indices:  // A wrong one would end the test.
      return;
    case SeenKind::all_to_all:
      if (!call.is_payload || call.is_of_buckets()) return;
      if (call.group.starts_with("cp")) {
        add_bugs_of(bugs, call.label,
                    {{"no exchange of ", dropped_exchange}, {"wrong parts of ", shifted_exchange}});
      } else {
        add_bugs_of(bugs, call.label,
                    {{"a lost row of ", lost_token}, {"shifted rows of ", shifted_rows}});
      }
      return;
    case SeenKind::send:
      add_bugs_of(bugs, call.label,
                  {{"one message is forgotten at both ends: ", forgotten_message},
                   {"one send is dropped: ", dropped_send},
                   {"two messages are swapped: ", swapped_messages},
                   {"messages are stale: ", stale_messages},
                   {"an element is corrupted: ", corrupted_element},
                   {"half of a message is sent: ", half_sent},
                   {"a message has another label: ", mislabelled}});
      return;
    case SeenKind::batch:
      if (call.label != "key and value gradients") return;
      bugs.push_back(planted("no first hop of " + call.label, [size = call.size] {
        return lost_gradient_hop({.forward = 0, .per_layer = size - 1}, 0);
      }));
      return;
  }
}

}  // namespace

std::vector<PlantedBug> bugs_of(const SeenCalls& calls) {
  std::vector<PlantedBug> bugs;
  const bool has_indices = std::ranges::any_of(
      calls, [](const SeenCall& call) { return call.kind == SeenKind::indices; });
  for (const FixedBug& fixed : fixed_bugs()) {
    if (!std::ranges::any_of(calls, fixed.concerns)) continue;
    if (has_indices && fixed.concerns == gathers_buckets) continue;
    bugs.push_back(planted(fixed.name, fixed.make, fixed.steps));
  }
  if (std::ranges::any_of(calls, passes_keys)) {
    bugs.push_back({kShiftedMask, 1, run_with_shifted_mask});
  }
  for (const SeenCall& call : calls) add_labelled_bugs(bugs, call);
  // Groups may share a label.
  std::ranges::stable_sort(bugs, {}, &PlantedBug::name);
  const auto have_one_name = [](const PlantedBug& a, const PlantedBug& b) {
    return a.name == b.name;
  };
  // Clang 14 does not take the range that std::ranges::unique returns.
  bugs.erase(std::unique(bugs.begin(), bugs.end(), have_one_name), bugs.end());
  return bugs;
}

}  // namespace shardsim::test
