#include "sim/serve/waiting_line.hpp"

#include <string>

#include <catch2/catch.hpp>

namespace shardsim {

TEST_CASE("Requests are taken in their order", "[serve]") {
  WaitingLine<int> line(3);
  CHECK_FALSE(line.join("a", 1).is_full);
  CHECK_FALSE(line.join("b", 2).is_full);
  CHECK(line.next() == 1);
  CHECK(line.next() == 2);
  CHECK_FALSE(line.next().has_value());
}

TEST_CASE("A page's newer request replaces its older one, in its place", "[serve]") {
  WaitingLine<int> line(3);
  (void)line.join("a", 1);
  (void)line.join("b", 2);
  const auto joined = line.join("a", 3);
  CHECK(joined.replaced == 1);
  CHECK(line.size() == 2);
  CHECK(line.next() == 3);
  // It no longer waits: nothing is replaced.
  CHECK_FALSE(line.join("a", 4).replaced.has_value());
}

TEST_CASE("Clients without a page replace nobody, and a full line takes none of them", "[serve]") {
  WaitingLine<int> line(2);
  CHECK_FALSE(line.join("", 1).replaced.has_value());
  CHECK_FALSE(line.join("", 2).replaced.has_value());
  CHECK(line.join("", 3).is_full);
  CHECK(line.join("a", 4).is_full);
  CHECK(line.size() == 2);
}

TEST_CASE("Requests that nobody waits for make room", "[serve]") {
  WaitingLine<int> line(2);
  (void)line.join("", 1);
  (void)line.join("a", 2);
  line.drop([](int request) { return request == 1; });
  CHECK_FALSE(line.join("", 3).is_full);
  CHECK(line.next() == 2);
  CHECK(line.next() == 3);
}

TEST_CASE("A page replaces its own request also in a full line", "[serve]") {
  WaitingLine<int> line(1);
  (void)line.join("a", 1);
  const auto joined = line.join("a", 2);
  CHECK_FALSE(joined.is_full);
  CHECK(joined.replaced == 1);
}

}  // namespace shardsim
