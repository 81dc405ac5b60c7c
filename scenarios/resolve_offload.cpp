#include "scenarios/resolve.hpp"

namespace shardsim {
namespace {

// The first field that needs the host link, for the error that there is none.
const char* first_offload(const ParallelismSpec& p) {
  if (p.offload_optimizer) return "parallelism.offload_optimizer";
  return p.offload_gradients ? "parallelism.offload_gradients" : "parallelism.offload_parameters";
}

}  // namespace

void resolve_offload(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!p.offloads()) return;
  if (p.offload_gradients && r.good("parallelism.zero_stage") && p.zero_stage < 2) {
    r.problem("E0206", "parallelism.offload_gradients",
              "at zero_stage " + text_of(p.zero_stage) +
                  " gradients are whole on every rank, and are not offloaded",
              "use zero_stage 2 or 3, or leave it out");
  }
  if (p.offload_parameters && r.good("parallelism.zero_stage") && p.zero_stage != 3) {
    r.problem("E0206", "parallelism.offload_parameters",
              "at zero_stage " + text_of(p.zero_stage) +
                  " every rank computes with all parameters, and they are not offloaded",
              "use zero_stage 3, or leave it out");
  }
  if (r.good("system.device.host_bandwidth_gb_per_s") &&
      r.scenario.system.device.host_bandwidth_gb_per_s == 0) {
    r.problem("E0206", first_offload(p),
              "there is no link to host memory: system.device.host_bandwidth_gb_per_s is 0",
              "give the GPU's host bandwidth, or keep everything on the device");
  }
}

}  // namespace shardsim
