// Catch2's main function takes ten seconds to compile: tests with <shardsim/catch2.hpp> link it.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
