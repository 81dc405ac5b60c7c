// Prints what the check of gossip says: `report none`, `report unbatched`, `report third`.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "gossip.hpp"

int main(int argc, char** argv) {
  const std::map<std::string, Bug> bugs = {
      {"none", Bug::none}, {"unbatched", Bug::unbatched}, {"third", Bug::third}};
  const auto bug = bugs.find(argc > 1 ? argv[1] : "none");
  if (bug == bugs.end()) {
    std::fputs("usage: report [none|unbatched|third]\n", stderr);
    return 2;
  }
  constexpr int kWorkers = 4;
  const Gossip gossip{.bug = bug->second};
  const shardsim::CheckReport report =
      check(gossip_program(gossip), gossip_options(gossip, kWorkers));
  std::fputs(report.to_text().c_str(), stdout);
  return report.passed() ? EXIT_SUCCESS : EXIT_FAILURE;
}
