#include "tests/explore/planted_schedules.hpp"

#include <memory>
#include <utility>

namespace shardsim::test {

Faults sends_first() {
  Faults faults;
  faults.batch = [](const Caller& caller, std::span<const P2pOp> operations,
                    const CallOptions& options, CallSite site) {
    Work last;
    for (const P2pOp::Kind kind : {P2pOp::Kind::send, P2pOp::Kind::recv}) {
      for (const P2pOp& each : operations) {
        if (each.kind != kind) continue;
        if (last.pending()) last.wait();
        last = kind == P2pOp::Kind::send ? caller.to.send(each.buffer, each.peer, options, site)
                                         : caller.to.recv(each.buffer, each.peer, options, site);
      }
    }
    return last;
  };
  return faults;
}

RunHooks depends_on_who_is_first() {
  struct Started {
    int count = 0;
    int first = 0;
  };
  const auto started = std::make_shared<Started>();
  Faults faults;
  faults.all_reduce = [started](const Caller& caller, const Tensor& buffer, ReduceOp op,
                                const CallOptions& options, CallSite site) {
    if (started->first != 0 && caller.world_rank == 0) buffer.set(0, buffer.get(0) + 1.0);
    return caller.to.all_reduce(buffer, op, options, site);
  };
  RunHooks hooks;
  hooks.wrap_world = [started, planted = plant(std::move(faults))](Communicator& world) {
    if (started->count == 0) started->first = world.rank();
    started->count = (started->count + 1) % world.size();  // All start, in every run.
    return planted(world);
  };
  return hooks;
}

}  // namespace shardsim::test
