#include "sim/console/progress.hpp"

#include <catch2/catch.hpp>

// The progress that a long run tells.
namespace shardsim::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("durations are told in the two units that matter") {
  CHECK(duration_words(seconds(0)) == "0 s");
  CHECK(duration_words(seconds(59)) == "59 s");
  CHECK(duration_words(seconds(200)) == "3 min 20 s");
  CHECK(duration_words(seconds(3600)) == "1 h 0 min");
  CHECK(duration_words(seconds(2 * 3600 + 5 * 60 + 59)) == "2 h 5 min");
}

TEST_CASE("progress tells what is left at the speed so far") {
  CHECK(progress_words(12, 100, milliseconds(5000)) == "12 of 100, 5 s, about 37 s left");
  CHECK(progress_words(25, 100, milliseconds(20000)) == "25 of 100, 20 s, about 1 min 0 s left");
  CHECK(progress_words(50, 100, milliseconds(1001)) == "50 of 100, 1 s, about 2 s left");
  // Too early to say, and nothing left to say.
  CHECK(progress_words(0, 100, milliseconds(5000)) == "0 of 100, 5 s");
  CHECK(progress_words(100, 100, milliseconds(5000)) == "100 of 100, 5 s");
}

}  // namespace shardsim::test
