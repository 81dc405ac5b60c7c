#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>

#include <unistd.h>

#include "sim/command/cli.hpp"

#include "tests/mutants/faulty_communicator.hpp"

// The command with a fault planted: SHARDSIM_FAULT="KIND RANK CALL" makes rank RANK do something in
// its CALL-th reduction. Whoever starts ranks starts this program again, so all of them have it.
namespace {

using namespace shardsim;

struct Planted {
  std::string kind;
  int rank = 0;
  int call = 0;
};

Planted planted() {
  Planted fault;
  const char* const text = std::getenv("SHARDSIM_FAULT");
  std::istringstream words(text == nullptr ? "none 0 0" : text);
  words >> fault.kind >> fault.rank >> fault.call;
  return fault;
}

// Makes the call with the planted fault; a call that is not made leaves the others waiting.
Work disturbed(const Planted& fault, const test::Caller& caller, const Tensor& buffer, ReduceOp op,
               const CallOptions& options, CallSite site) {
  if (fault.kind == "kill") std::raise(SIGKILL);
  if (fault.kind == "stop") std::raise(SIGSTOP);
  if (fault.kind == "exit") std::_Exit(7);
  if (fault.kind == "throw") throw std::runtime_error("planted");
  if (fault.kind == "loop") {
    for (;;) pause();  // Alive by its heartbeat, and never calls.
  }
  if (fault.kind == "short") {
    const Tensor part = buffer.view(0, {buffer.numel() / 2});
    return caller.to.all_reduce(part, op, options, site);
  }
  if (fault.kind == "scale") {
    for (std::int64_t i = 0; i < buffer.numel(); ++i) buffer.set(i, 2.0 * buffer.get(i));
  }
  return caller.to.all_reduce(buffer, op, options, site);
}

}  // namespace

int main(int argc, char** argv) {
  const Planted fault = planted();
  const auto num_calls = std::make_shared<int>(0);
  test::Faults faults;
  faults.all_reduce = [=](const test::Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    const bool here = caller.world_rank == fault.rank && ++*num_calls == fault.call;
    if (!here) return caller.to.all_reduce(buffer, op, options, site);
    return disturbed(fault, caller, buffer, op, options, site);
  };
  RunHooks hooks;
  // Real ranks alone: the simulation beside them is right.
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr) hooks.wrap_world = test::plant(faults);
  return run_command(argc, argv, std::cout, std::cerr, false, hooks);
}
