#include "scenarios/formats/layer_pattern.hpp"

#include <vector>

#include <catch2/catch.hpp>

namespace shardsim::test {

namespace {

using Pattern = std::optional<std::vector<bool>>;

Pattern read(const std::string& text, std::int64_t num_layers) {
  return read_frequency(text, num_layers, LayerPhase::first_of_each);
}

// Whether each of seven layers has it.
std::string letters(const std::string& text, LayerPhase phase) {
  const Pattern layers = read_frequency(text, 7, phase);
  std::string all;
  for (std::size_t i = 0; layers && i < layers->size(); ++i) all += (*layers)[i] ? '1' : '0';
  return all;
}

}  // namespace

TEST_CASE("frequencies of layers are read as Megatron-LM evaluates them", "[exchange]") {
  CHECK(read("1", 3) == Pattern({true, true, true}));
  CHECK(read("2", 5) == Pattern({true, false, true, false, true}));
  CHECK(read("([0]*2+[1]*3)", 5) == Pattern({false, false, true, true, true}));
  CHECK(read("[0, 1]*2 + [1]", 5) == Pattern({false, true, false, true, true}));
  CHECK(read("'[0,1,1]'", 3) == Pattern({false, true, true}));
  CHECK(read("([0]+[1]*2)*2", 6) == Pattern({false, true, true, false, true, true}));
  CHECK(read("([0]+[1])*2+[1]*1*1", 5) == Pattern({false, true, false, true, true}));
}

TEST_CASE("M13: A frequency's number has a phase of its own", "[exchange]") {
  CHECK(letters("3", LayerPhase::first_of_each) == "1001001");
  CHECK(letters("3", LayerPhase::last_of_each) == "0010010");
  CHECK(letters("3", LayerPhase::all_but_last_of_each) == "1101101");
  CHECK(letters("1", LayerPhase::all_but_last_of_each) == "0000000");
}

TEST_CASE("frequencies that are none, or of other lengths, are nothing", "[exchange]") {
  for (const std::string& text :
       {std::string("0"), std::string("-1"), std::string(), std::string("[0,1]"),
        std::string("[0,1,1,1]"), std::string("[0,2,1]"), std::string("[0 1,1"),
        std::string("[0]*x+[1]*2"), std::string("[0]*-1+[1]*3"), std::string("[1]*3+"),
        std::string("[01]*1+[1]"), std::string("[1]*99999999999999999999"), std::string("([0,1,1]"),
        std::string("[0,1,1])"), std::string("([0])*2"), std::string(100000, '('),
        std::string("[1]*3*")}) {
    INFO(text.substr(0, 40));
    CHECK_FALSE(read(text, 3).has_value());
  }
}

TEST_CASE("frequencies written are read again", "[exchange]") {
  const std::vector<bool> layers = {false, true, true, false, true};
  CHECK(frequency_of(layers) == "([0]*1+[1]*2+[0]*1+[1]*1)");
  CHECK(read(frequency_of(layers), 5) == layers);
}

}  // namespace shardsim::test
