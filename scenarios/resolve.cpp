#include "scenarios/resolve.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "scenarios/limits.hpp"
#include "scenarios/schedule_file.hpp"

namespace shardsim {

namespace {

// One node's worth of ranks of the first replica, the ones that people compare first.
void resolve_trace_ranks(Reading& r) {
  constexpr std::int64_t kEnough = 8;
  if (!r.good("system.ranks")) {
    return;
  }
  std::vector<std::int64_t> first(
      static_cast<std::size_t>(std::min(kEnough, r.scenario.system.ranks)));
  std::iota(first.begin(), first.end(), 0);
  derive(r, "output.trace_ranks", r.scenario.output.trace_ranks, first);
}

}  // namespace

std::string divisors(std::int64_t number, std::int64_t limit) {
  std::string list;
  int found = 0;
  for (std::int64_t d = 1; d <= std::min<std::int64_t>({number, limit, 4096}) && found < 12; ++d) {
    if (number % d == 0) {
      list += (found++ == 0 ? "" : ", ") + text_of(d);
    }
  }
  return list;
}

void resolve(Reading& r) {
  resolve_model(r);
  resolve_system(r);
  resolve_network(r);
  resolve_layout(r);
  resolve_sharding(r);
  resolve_offload(r);
  resolve_batch(r);
  resolve_tensor_parallel(r);
  resolve_context_parallel(r);
  resolve_experts(r);
  resolve_blocks(r);
  resolve_schedule_file(r);
  resolve_chunks(r);
  resolve_stages(r);
  resolve_pipeline(r);
  check_schedule_file(r);
  resolve_training(r);
  resolve_data_parallel(r);
  resolve_faults(r);
  resolve_trace_ranks(r);
  check_expectations(r);
  check_outputs(r);
  check_limits(r);
  check_nccl_calls(r);
}

}  // namespace shardsim
