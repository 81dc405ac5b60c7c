#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "reports/result.hpp"

// Metrics of a result and of "expect" come from the same rows. Texts are left out, as "expect"
// compares numbers.
TEST_CASE("expect may name exactly the metrics of a result that are numbers") {
  std::vector<std::string> numbers = shardsim::metric_names();
  for (const char* text : {"trace_hash", "memory.peak_allocation"}) {
    numbers.erase(std::remove(numbers.begin(), numbers.end(), text), numbers.end());
  }
  CHECK(shardsim::metrics_to_expect() == numbers);
}
