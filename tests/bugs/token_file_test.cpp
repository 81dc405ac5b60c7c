#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "backends/rendezvous/launch_environment.hpp"
#include "backends/rendezvous/process_launcher.hpp"

#include "tests/temporary_folder.hpp"

// With SHARDSIM_TOKEN_FILE in the environment, ranks that shardsim started took the token from that
// file instead of the one from shardsim: nobody let them in. A file that others could read, or one
// without an end, was taken, too.
namespace shardsim::test {
namespace {

// The environment of a program that is started by the launcher, one variable per line.
std::string environment_of(ProcessCommand command) {
  std::ostringstream printed;
  command.argv = {"env"};
  command.output = &printed;
  ProcessLauncher launcher;
  launcher.start(command);
  while (launcher.num_running() > 0) launcher.poll(0.05);
  return "\n" + printed.str();
}

}  // namespace

TEST_CASE("ranks that are started get their token, and no file with another") {
  ::setenv("SHARDSIM_TOKEN_FILE", "/somewhere/token", 1);
  const RankLaunch launch{2, {"shardsim"}, "127.0.0.1:4000", "0123456789abcdef", ""};
  for (const ProcessCommand& command :
       {mpirun_command(launch, false), plain_rank_command(launch, 1)}) {
    const std::string environment = environment_of(command);
    CHECK(environment.find("\nSHARDSIM_TOKEN=0123456789abcdef\n") != std::string::npos);
    CHECK(environment.find("SHARDSIM_TOKEN_FILE") == std::string::npos);
  }
  ::unsetenv("SHARDSIM_TOKEN_FILE");
}

TEST_CASE("a token file that others may read, or that is too long, is refused") {
  const TemporaryFolder folder;
  const std::string path = folder / "token";
  const auto lookup = [&](const std::string& name) {
    return name == "SHARDSIM_TOKEN_FILE" ? std::optional(path) : std::nullopt;
  };
  std::ofstream(path) << "0123456789abcdef\n";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  CHECK_THROWS_WITH(find_token(lookup), Catch::Contains("which others may read or write"));
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  CHECK(find_token(lookup) == "0123456789abcdef");
  std::ofstream(path) << std::string(1 << 20, 'x');
  CHECK_THROWS_WITH(find_token(lookup), Catch::Contains("a token of over 256 characters"));
}

}  // namespace shardsim::test
