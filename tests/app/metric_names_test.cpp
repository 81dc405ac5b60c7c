#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "reports/result.hpp"
#include "scenarios/expected_metrics.hpp"

// Scenarios do not see reports, so each has a list of the metrics. They must be one list, but for
// texts, which cannot be compared with a number.
TEST_CASE("expect may name exactly the metrics of a result that are numbers") {
  std::vector<std::string> numbers = shardsim::metric_names();
  for (const char* text : {"trace_hash", "memory.peak_allocation"}) {
    numbers.erase(std::remove(numbers.begin(), numbers.end(), text), numbers.end());
  }
  CHECK(shardsim::metrics_to_expect() == numbers);
}
