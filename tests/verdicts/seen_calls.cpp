#include "tests/verdicts/seen_calls.hpp"

#include <memory>

#include <catch2/catch.hpp>

#include "sim/run/run.hpp"

#include "tests/mutants/faulty_communicator.hpp"

namespace shardsim::test {

namespace {

// Faults that change nothing, and write down each call.
Faults noted_in(SeenCalls& calls) {
  const auto note = [&calls](SeenKind kind, const Caller& caller, const CallOptions& options) {
    if (caller.to.size() < 2) return;
    const bool is_payload = options.traffic == TrafficClass::payload;
    calls.insert({kind, options.label, caller.to.name(), is_payload, caller.to.size()});
  };
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    note(SeenKind::all_reduce, caller, options);
    return caller.to.all_reduce(buffer, op, options, site);
  };
  faults.reduce_scatter = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                              ReduceOp op, const CallOptions& options, CallSite site) {
    note(SeenKind::reduce_scatter, caller, options);
    return caller.to.reduce_scatter(output, input, op, options, site);
  };
  faults.all_gather = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                          const CallOptions& options, CallSite site) {
    const bool has_indices = input.dtype() == DType::int32 || input.dtype() == DType::int64;
    note(has_indices ? SeenKind::indices : SeenKind::all_gather, caller, options);
    return caller.to.all_gather(output, input, options, site);
  };
  faults.before_all_to_all = [=](const Caller& caller, const Tensor&, const CallOptions& options) {
    note(SeenKind::all_to_all, caller, options);
  };
  faults.send = [=](const Caller& caller, const Tensor& buffer, int peer,
                    const CallOptions& options, CallSite site) {
    note(SeenKind::send, caller, options);
    return caller.to.send(buffer, peer, options, site);
  };
  faults.batch = [=](const Caller& caller, std::span<const P2pOp> operations,
                     const CallOptions& options, CallSite site) {
    note(SeenKind::batch, caller, options);
    return caller.to.batch(operations, options, site);
  };
  return faults;
}

}  // namespace

SeenCalls calls_of(const Scenario& scenario) {
  SeenCalls calls;
  const Result result = run_scenario(scenario, {.wrap_world = plant(noted_in(calls))}).result;
  INFO(scenario.name);
  REQUIRE(result.exit_code == 0);
  return calls;
}

}  // namespace shardsim::test
