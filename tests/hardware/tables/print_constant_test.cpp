#include "tests/hardware/tables/print_constant.hpp"

#include <array>
#include <span>

#include <catch2/catch.hpp>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/nccl/constants.hpp"
#include "sim/hardware/software.hpp"

namespace shardsim::test {

namespace {

enum class Colour : char { red, green };

struct Inner {
  double share = 0.5;
  Colour colour = Colour::green;
};

struct Outer {
  const char* name;
  std::array<Inner, 2> inner{};
  std::span<const double> values;
  bool is_on = true;
};

}  // namespace

static_assert(count_members<Inner>() == 2);
static_assert(count_members<Outer>() == 4);
static_assert(count_members<KernelUse>() == 2);
static_assert(count_members<Software>() == 16);
static_assert(count_members<KernelConstants>() == 18);
static_assert(count_members<NcclConstants>() == 7);

TEST_CASE("a constant is printed member by member, each with all its bits") {
  static constexpr std::array<double, 2> kValues = {0.1, -2.0};
  const std::array<Outer, 2> table = {
      {{.name = "first", .values = kValues},
       {.name = "", .inner = {{{0.25, Colour::red}, {0.125, Colour::green}}}, .is_on = false}}};
  std::string printed;
  print_constant(printed, "kTable", table);
  CHECK(printed ==
        "kTable[0].0 = \"first\"\n"
        "kTable[0].1[0].0 = 0.5 0x1p-1\n"
        "kTable[0].1[0].1 = 1\n"
        "kTable[0].1[1].0 = 0.5 0x1p-1\n"
        "kTable[0].1[1].1 = 1\n"
        "kTable[0].2[0] = 0.10000000000000001 0x1.999999999999ap-4\n"
        "kTable[0].2[1] = -2 -0x1p+1\n"
        "kTable[0].3 = 1\n"
        "kTable[1].0 = \"\"\n"
        "kTable[1].1[0].0 = 0.25 0x1p-2\n"
        "kTable[1].1[0].1 = 0\n"
        "kTable[1].1[1].0 = 0.125 0x1p-3\n"
        "kTable[1].1[1].1 = 1\n"
        "kTable[1].3 = 0\n");
}

}  // namespace shardsim::test
