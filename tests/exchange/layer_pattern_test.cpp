#include "scenarios/formats/layer_pattern.hpp"

#include <vector>

#include <catch2/catch.hpp>

namespace shardsim::test {

namespace {

using Pattern = std::optional<std::vector<bool>>;

}  // namespace

TEST_CASE("frequencies of layers are read as Megatron-LM evaluates them", "[exchange]") {
  CHECK(read_frequency("1", 3) == Pattern({true, true, true}));
  CHECK(read_frequency("2", 5) == Pattern({true, false, true, false, true}));
  CHECK(read_frequency("([0]*2+[1]*3)", 5) == Pattern({false, false, true, true, true}));
  CHECK(read_frequency("[0, 1]*2 + [1]", 5) == Pattern({false, true, false, true, true}));
  CHECK(read_frequency("'[0,1,1]'", 3) == Pattern({false, true, true}));
}

TEST_CASE("frequencies that are none, or of other lengths, are nothing", "[exchange]") {
  for (const char* text : {"0", "-1", "", "[0,1]", "[0,1,1,1]", "[0,2,1]", "[0 1,1", "[0]*x+[1]*2",
                           "[0]*-1+[1]*3", "[1]*3+", "[01]*1+[1]", "[1]*99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(read_frequency(text, 3).has_value());
  }
}

TEST_CASE("frequencies written are read again", "[exchange]") {
  const std::vector<bool> layers = {false, true, true, false, true};
  CHECK(frequency_of(layers) == "([0]*1+[1]*2+[0]*1+[1]*1)");
  CHECK(read_frequency(frequency_of(layers), 5) == layers);
}

}  // namespace shardsim::test
