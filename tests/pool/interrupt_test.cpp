#include <csignal>

#include <catch2/catch.hpp>

#include "sim/console/parallel.hpp"

namespace shardsim {

namespace {

volatile std::sig_atomic_t handled = 0;
void count(int /*signal*/) { handled = handled + 1; }

}  // namespace

TEST_CASE("the first interrupt asks, and afterwards everything is as before", "[pool]") {
  auto* const before = std::signal(SIGINT, count);
  {
    const InterruptWatch watch;
    CHECK_FALSE(watch.is_asked());
    std::raise(SIGINT);
    CHECK(watch.is_asked());
    CHECK(handled == 0);
  }
  std::raise(SIGINT);
  CHECK(handled == 1);
  {
    const InterruptWatch watch;
    CHECK_FALSE(watch.is_asked());
  }
  std::signal(SIGINT, before);
}

}  // namespace shardsim
