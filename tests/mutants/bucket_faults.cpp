#include "tests/mutants/bucket_faults.hpp"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "tests/mutants/copies.hpp"

namespace shardsim::test {

namespace {

/// A change to a bucket when its reduction is posted.
using Touch = std::function<void(const Caller&, const Tensor& bucket, const CallOptions&)>;

/// Changes `before` and `after` the post; either may be empty. Shards on their way from their
/// reduction to their replicas are left alone: they were touched as part of the bucket.
Faults around_reductions(const Touch& before, const Touch& after) {
  const auto touch = [](const Touch& what, const Caller& caller, const Tensor& bucket,
                        const CallOptions& options) {
    const bool is_bucket =
        options.traffic == TrafficClass::payload && caller.to.name() != "dp_replicate";
    if (what && is_bucket) what(caller, bucket, options);
  };
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    touch(before, caller, buffer, options);
    Work work = caller.to.all_reduce(buffer, op, options, site);
    touch(after, caller, buffer, options);
    return work;
  };
  faults.reduce_scatter = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                              ReduceOp op, const CallOptions& options, CallSite site) {
    touch(before, caller, input, options);
    Work work = caller.to.reduce_scatter(output, input, op, options, site);
    touch(after, caller, input, options);
    return work;
  };
  return faults;
}

Faults before_reductions(const Touch& touch) { return around_reductions(touch, {}); }
Faults during_reductions(const Touch& touch) { return around_reductions({}, touch); }

std::size_t size_of_data(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.num_bytes());
}

void clear(const Tensor& tensor) { std::memset(tensor.data(), 0, size_of_data(tensor)); }

}  // namespace

Faults read_before_first_copy() {
  return before_reductions(
      [](const Caller&, const Tensor& bucket, const CallOptions&) { clear(bucket); });
}

Faults read_before_next_copy() {
  using Key = std::pair<int, std::string>;  // World rank, label.
  const auto held = std::make_shared<std::map<Key, Tensor>>();
  return before_reductions(
      [=](const Caller& caller, const Tensor& bucket, const CallOptions& options) {
        const Tensor now = flat_copy_of(bucket);
        const auto [place, first] = held->try_emplace({caller.world_rank, options.label}, now);
        if (!first) copy(bucket, std::exchange(place->second, now));
      });
}

Faults freed_in_flight() {
  return during_reductions(
      [](const Caller&, const Tensor& bucket, const CallOptions&) { clear(bucket); });
}

Faults touched_in_flight() {
  return during_reductions([](const Caller&, const Tensor& bucket, const CallOptions&) {
    std::vector<double> values(static_cast<std::size_t>(bucket.numel()));
    load(bucket, values);
    store(bucket, values);
  });
}

Faults dropped_tail(std::int64_t width) {
  // `output` has the sum of elements from `first` of the bucket on.
  const auto keep_tail = [width](const Tensor& output, const Tensor& own, std::int64_t first) {
    const std::int64_t count = output.numel();
    for (std::int64_t i = count - count % width; i < count; ++i) output.set(i, own.get(first + i));
  };
  const auto is_bucket = [](const Caller& caller, const CallOptions& options) {
    return options.traffic == TrafficClass::payload && caller.to.name().starts_with("dp");
  };
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) -> Work {
    if (!is_bucket(caller, options)) return caller.to.all_reduce(buffer, op, options, site);
    const Tensor own = flat_copy_of(buffer);
    caller.to.all_reduce(buffer, op, options, site).wait();
    keep_tail(buffer, own, 0);
    return {};
  };
  faults.reduce_scatter = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                              ReduceOp op, const CallOptions& options, CallSite site) -> Work {
    if (!is_bucket(caller, options)) {
      return caller.to.reduce_scatter(output, input, op, options, site);
    }
    const Tensor own = flat_copy_of(input);
    caller.to.reduce_scatter(output, input, op, options, site).wait();
    keep_tail(output, own, caller.to.rank() * output.numel());
    return {};
  };
  return faults;
}

}  // namespace shardsim::test
