#include "backends/scan.hpp"

#include <array>
#include <vector>

#include "sim/kernel/error.hpp"

#include "backends/reduce.hpp"

namespace shardsim {

namespace {

Tensor copy_for_scan(Runtime& runtime, const Tensor& buffer, CallSite site) {
  const Tensor copy = runtime.allocate(MemoryCategory::comm, Shape{buffer.numel()}, buffer.dtype());
  runtime.compute({"copy", ComputeKind::memory_bound, buffer.dtype(), 0, 2 * buffer.num_bytes()},
                  [&] {
                    buffer.touch(Access::read, site);
                    copy_bytes(copy.wire_data(), buffer.wire_data(), buffer.num_bytes());
                  });
  return copy;
}

// `buffer` becomes `earlier` op `buffer`.
void combine(Runtime& runtime, const Tensor& earlier, const Tensor& buffer, ReduceOp op,
             CallSite site) {
  runtime.compute(
      {"combine", ComputeKind::memory_bound, buffer.dtype(), buffer.numel(),
       3 * buffer.num_bytes()},
      [&] {
        buffer.touch(Access::write, site);
        const std::array<const std::byte*, 2> both = {earlier.wire_data(), buffer.wire_data()};
        reduce_chunk(both, buffer.wire_data(), buffer.numel(), buffer.dtype(), op,
                     ReductionOrder::rank, 0);
      });
}

// One round: `out` goes to the member `distance` behind, `in` comes from the one before.
bool exchange(Communicator& group, const Tensor& out, const Tensor& in, int distance,
              const CallOptions& options, CallSite site) {
  std::vector<P2pOp> halves;
  if (group.rank() + distance < group.size()) {
    halves.push_back({P2pOp::Kind::send, out, group.rank() + distance});
  }
  const bool receives = group.rank() >= distance;
  if (receives) halves.push_back({P2pOp::Kind::recv, in, group.rank() - distance});
  if (!halves.empty()) group.batch(halves, options, site).wait();
  return receives;
}

void require_prefix(const Communicator& group, ReduceOp op) {
  if (op != ReduceOp::avg) return;
  throw UsageError("E0513", "a scan of group " + group.name() + " by avg",
                   "scan by sum, and divide by the number of members so far");
}

}  // namespace

void inclusive_scan(Communicator& group, Runtime& runtime, const Tensor& buffer, ReduceOp op,
                    const CallOptions& options, CallSite site) {
  require_prefix(group, op);
  CallOptions each{.label = options.label, .after = options.after, .traffic = options.traffic};
  const Tensor earlier =
      runtime.allocate(MemoryCategory::comm, Shape{buffer.numel()}, buffer.dtype());
  for (int distance = 1; distance < group.size(); distance *= 2) {
    if (exchange(group, buffer, earlier, distance, each, site)) {
      combine(runtime, earlier, buffer, op, site);
    }
    each.after = nullptr;
  }
}

void exclusive_scan(Communicator& group, Runtime& runtime, const Tensor& buffer, ReduceOp op,
                    const CallOptions& options, CallSite site) {
  const Tensor sum = copy_for_scan(runtime, buffer, site);
  inclusive_scan(group, runtime, sum, op, options, site);
  exchange(group, sum, buffer, 1, {.label = options.label, .traffic = options.traffic}, site);
}

}  // namespace shardsim
