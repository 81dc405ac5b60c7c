#include <algorithm>
#include <optional>
#include <vector>

#include "sim/harness/checker.hpp"

// Finds who is to blame for a run that stands still. Ranks that only wait look like those that have
// erred. So the run is made again for each suspect, with its call mended: if it ends well for one
// rank alone, that one has erred.
namespace shardsim {

namespace {

// So many guesses are tried, and fewer for large programs: a report is to come within seconds.
constexpr int kBlameTries = 24;
constexpr int kBlameRanks = 4096;

}  // namespace

bool Checker::ends_well(const ReplayToken& token, const std::vector<CallRepair>& repairs) {
  ProgramSetting setting = setting_of(token, options_.precision);
  // Operations that are mended move no data: buffers tell nothing.
  setting.watch = false;
  setting.repairs = repairs;
  ListChooser chooser(token.schedule.decisions);
  ++num_runs_;
  const ProgramRun run = run_program(program_, setting, token.schedule, chooser);
  // A program that refuses the numbers has come through its communication until there.
  return !run.failure || run.failure->code == "CHECK_FAILED" || run.failure->code == "RANK_FAILED";
}

std::optional<Diagnosis> Checker::find_culprit(const ReplayToken& token,
                                               const std::vector<Suspicion>& suspicions) {
  const Suspicion* culprit = nullptr;
  int tries = 0;
  const int most = std::max(1, std::min(kBlameTries, kBlameRanks / token.ranks));
  for (const Suspicion& suspicion : suspicions) {
    // A guess of two changes counts where no single one does.
    if (culprit != nullptr && suspicion.repairs.size() != culprit->repairs.size()) break;
    if (culprit != nullptr && suspicion.rank == culprit->rank) continue;
    if (++tries > most) return std::nullopt;
    if (!ends_well(token, suspicion.repairs)) continue;
    if (culprit != nullptr) return std::nullopt;  // It may be either.
    culprit = &suspicion;
  }
  return culprit == nullptr ? std::nullopt : std::optional(culprit->diagnosis);
}

}  // namespace shardsim
