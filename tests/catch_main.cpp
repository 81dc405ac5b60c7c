// The main function of every test binary, compiled once; for version 2 it is in
// sim/harness/testing.
#include <catch2/catch_session.hpp>

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
