#include "tests/exchange/exchange_fixture.hpp"

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"

namespace shardsim::test {

Imported import_file(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "import");
  Imported imported;
  imported.printed = shardsim(arguments);
  INFO(imported.printed.err);
  REQUIRE(imported.printed.exit_code == 0);
  imported.scenario = load_scenario_text(imported.printed.out, "imported.json");
  return imported;
}

void export_into(const TemporaryFolder& folder, const std::string& kind) {
  write(folder / "small.json", kSmall);
  const Printed printed =
      shardsim({"export", kind, folder / "small.json", "-o", folder / "small", "-q"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
}

}  // namespace shardsim::test
