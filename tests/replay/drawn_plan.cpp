#include "tests/replay/drawn_plan.hpp"

#include <string>
#include <vector>

#include <rapidcheck.h>

#include "tests/draws.hpp"

namespace shardsim::test {

DrawnScenario draw_faulty_plan() {
  DrawnScenario drawn = draw_verify_scenario();
  drawn.set_word("execution.tensors", "meta");
  const std::int64_t times = *rc::gen::elementOf(std::vector<std::int64_t>{1, 2, 7, 20});
  drawn.set("training.global_batch_size",
            times * std::stoll(drawn.get("training.global_batch_size")));
  if (once_in(2)) drawn.set("faults.stragglers", R"([{"rank": 0, "slowdown": 1.25}])");
  if (once_in(3))
    drawn.set("faults.slow_links",
              R"([{"node": 0, "tier": "intra_node", "bandwidth_factor": 0.5}])");
  if (once_in(3)) {
    drawn.set(
        "faults.flapping_links",
        R"([{"node": 0, "tier": "intra_node", "down_s": 1e-5, "period_s": 1e-4, "phase_s": 2e-5}])");
  }
  if (once_in(3)) drawn.set("execution.buffered_sends", "true");
  if (once_in(2)) drawn.set("system.host_us_per_kernel", draw_in(1, 40));
  return drawn;
}

}  // namespace shardsim::test
