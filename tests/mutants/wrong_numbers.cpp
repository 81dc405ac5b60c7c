#include "tests/mutants/wrong_numbers.hpp"

#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "tests/mutants/copies.hpp"

namespace shardsim::test {

namespace {

bool is_payload(const CallOptions& options) { return options.traffic == TrafficClass::payload; }

/// Element i of the result is element i + 1 of the tensor, the last one its first.
Tensor shifted(const Tensor& tensor) {
  Tensor result = empty_like(tensor);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    result.set(i, tensor.get((i + 1) % tensor.numel()));
  }
  return result;
}

/// Buffers of calls under way; they live as long as the run.
using Kept = std::shared_ptr<std::vector<Tensor>>;

/// Changes a rank's gradients before it gives them away.
Faults before_giving_away(const std::function<void(const Caller&, const Tensor&)>& change) {
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    // Shards that go on to their replicas were changed on their way into the shards.
    if (is_payload(options) && caller.to.name() != "dp_replicate") change(caller, buffer);
    return caller.to.all_reduce(buffer, op, options, site);
  };
  faults.reduce_scatter = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                              ReduceOp op, const CallOptions& options, CallSite site) {
    change(caller, input);
    return caller.to.reduce_scatter(output, input, op, options, site);
  };
  return faults;
}

bool is_any(const Communicator&) { return true; }

/// All reductions of payload over the groups that `is_meant` picks use another operation.
Faults reduced_by(ReduceOp other, const std::function<bool(const Communicator&)>& is_meant) {
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    const bool changes = is_payload(options) && is_meant(caller.to);
    return caller.to.all_reduce(buffer, changes ? other : op, options, site);
  };
  faults.reduce_scatter = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                              ReduceOp op, const CallOptions& options, CallSite site) {
    return caller.to.reduce_scatter(output, input, is_meant(caller.to) ? other : op, options, site);
  };
  return faults;
}

/// The scalar of this label stays what it is on each rank.
Faults without_scalar(const std::string& label) {
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    if (options.label == label) return Work();
    return caller.to.all_reduce(buffer, op, options, site);
  };
  return faults;
}

/// Gathers take `contribution` in place of a member's chunk.
Faults gathering(
    const std::function<Tensor(const Caller&, const Tensor&, const CallOptions&)>& contribution) {
  const Kept kept = std::make_shared<std::vector<Tensor>>();
  Faults faults;
  faults.all_gather = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                          const CallOptions& options, CallSite site) {
    kept->push_back(contribution(caller, input, options));
    return caller.to.all_gather(output, kept->back(), options, site);
  };
  return faults;
}

}  // namespace

Faults no_averaging() { return without_scalar("target_count"); }

Faults mean_of_means() {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    if (std::string("target_count") != options.label) {
      return caller.to.all_reduce(buffer, op, options, site);
    }
    buffer.set(0, buffer.get(0) * caller.to.size());
    return Work();
  };
  return faults;
}

Faults local_norm() { return without_scalar("grad_norm"); }
Faults local_loss() { return without_scalar("loss"); }

Faults loss_summed_twice() {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    const bool is_loss = options.label == std::string("loss");
    if (is_loss) caller.to.all_reduce(buffer, op, options, site).wait();
    return caller.to.all_reduce(buffer, op, options, site);
  };
  return faults;
}

Faults reduced_by_max() { return reduced_by(ReduceOp::max, is_any); }

Faults double_averaging() {
  return reduced_by(ReduceOp::avg,
                    [](const Communicator& group) { return group.name().starts_with("dp"); });
}

Faults reduced_twice() {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    if (is_payload(options)) caller.to.all_reduce(buffer, op, options, site).wait();
    return caller.to.all_reduce(buffer, op, options, site);
  };
  return faults;
}

Faults dropped_reduction(const std::string& label) {
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    if (options.label == label) return Work();
    return caller.to.all_reduce(buffer, op, options, site);
  };
  faults.reduce_scatter = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                              ReduceOp op, const CallOptions& options, CallSite site) {
    if (options.label != label) {
      return caller.to.reduce_scatter(output, input, op, options, site);
    }
    const Tensor own = input.view(caller.to.rank() * output.numel(), {output.numel()});
    if (own.data() != output.data()) copy(output, own);
    return Work();
  };
  return faults;
}

Faults dropped_gather(const std::string& label) {
  Faults faults;
  faults.all_gather = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                          const CallOptions& options, CallSite site) {
    if (options.label == label) return Work();
    return caller.to.all_gather(output, input, options, site);
  };
  return faults;
}

Faults stale_gather() {
  struct Versions {
    Tensor now;
    Tensor before;
  };
  using Key = std::tuple<int, std::string>;  // World rank, label.
  const auto versions = std::make_shared<std::map<Key, Versions>>();
  return gathering([=](const Caller& caller, const Tensor& input, const CallOptions& options) {
    const auto [at, first] = versions->try_emplace({caller.world_rank, options.label});
    Versions& of = at->second;
    if (first) of = {flat_copy_of(input), flat_copy_of(input)};
    const bool changed =
        std::memcmp(of.now.data(), input.data(), static_cast<std::size_t>(input.num_bytes())) != 0;
    if (changed) of = {flat_copy_of(input), of.now};
    return of.before;
  });
}

Faults gathered_once() {
  using Key = std::tuple<int, std::string>;  // World rank, label.
  const auto held = std::make_shared<std::map<Key, Tensor>>();
  Faults faults;
  faults.all_gather = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                          const CallOptions& options, CallSite site) -> Work {
    const auto [at, first] = held->try_emplace({caller.world_rank, options.label});
    Tensor& weights = at->second;
    if (first) {
      weights = empty_like(output);
      caller.to.all_gather(weights, input, options, site).wait();
    }
    copy(output, weights);
    return {};
  };
  return faults;
}

Faults shifted_reduce_scatter() {
  Faults faults;
  faults.reduce_scatter = [](const Caller& caller, const Tensor& output, const Tensor& input,
                             ReduceOp op, const CallOptions& options, CallSite site) {
    copy(input, shifted(input));
    return caller.to.reduce_scatter(output, input, op, options, site);
  };
  return faults;
}

Faults shifted_gather() {
  return gathering(
      [](const Caller&, const Tensor& input, const CallOptions&) { return shifted(input); });
}

Faults own_part_twice() {
  return before_giving_away([](const Caller& caller, const Tensor& gradients) {
    if (caller.world_rank == 0) scale(gradients, 2.0);
  });
}

Faults lost_contribution() {
  return before_giving_away([](const Caller& caller, const Tensor& gradients) {
    if (caller.world_rank == 7) scale(gradients, 0.0);
  });
}

Faults no_replicate_reduction() {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    if (caller.to.name() == "dp_replicate") return Work();
    return caller.to.all_reduce(buffer, op, options, site);
  };
  return faults;
}

Faults overflow_unknown_over(const std::string& name) {
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    const bool dropped = std::string("found_inf") == options.label && caller.to.name() == name;
    return dropped ? Work() : caller.to.all_reduce(buffer, op, options, site);
  };
  return faults;
}

Faults neighbours_as_group(const std::string& name) {
  Faults faults;
  faults.split = [=](const Caller& caller, int color, int key, const std::string& made,
                     CallSite site) {
    const bool wrong = made == name;
    return caller.to.split(wrong ? caller.world_rank / 4 : color, wrong ? caller.world_rank : key,
                           made, site);
  };
  return faults;
}

Faults pairs_as_group(const std::string& name, int stride) {
  Faults faults;
  faults.split = [=](const Caller& caller, int color, int key, const std::string& made,
                     CallSite site) {
    if (made != name) return caller.to.split(color, key, made, site);
    const int place = caller.world_rank / stride % 2;
    return caller.world.split(caller.world_rank - place * stride, place, made, site);
  };
  return faults;
}

Faults reversed_group(const std::string& name) {
  Faults faults;
  faults.split = [=](const Caller& caller, int color, int key, const std::string& made,
                     CallSite site) {
    return caller.to.split(color, made == name ? -key : key, made, site);
  };
  return faults;
}

}  // namespace shardsim::test
