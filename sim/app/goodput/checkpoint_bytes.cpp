#include <cstddef>

#include "scenarios/model_size.hpp"
#include "sim/app/goodput/goodput_metrics.hpp"
#include "sim/app/plan_of.hpp"

namespace shardsim {

std::int64_t checkpoint_bytes(const Scenario& scenario) {
  const SyncPlan sync = parallel_options_of(scenario).sync;
  const std::size_t states = optimizer_of(scenario.training)->state_names().size();
  const std::int64_t master = size_of(sync.master_dtype);
  std::int64_t each = size_of(sync.weight_dtype) + static_cast<std::int64_t>(states) * master;
  if (sync.master_dtype != sync.weight_dtype) each += master;
  return num_parameters(scenario.model) * each;
}

}  // namespace shardsim
