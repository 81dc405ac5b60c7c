#include <algorithm>

#include "sim/harness/checker.hpp"

namespace shardsim {

namespace {

// A failure that needs luck gets so much of it at each smaller number of ranks.
constexpr int kSchedules = 60;

class Shrinker {
 public:
  Shrinker(Checker& checker, const CheckReport& report)
      : checker_(checker), token_(*report.token), failure_(*report.failure) {}

  Shrunk run() {
    take_fewer_ranks();
    take_fewer_steps();
    take_fewer_decisions();
    failure_.replay = to_text(token_);
    return {.token = token_, .failure = failure_, .runs = static_cast<int>(checker_.num_runs())};
  }

 private:
  bool keep(const ReplayToken& token, std::optional<Diagnosis> failure) {
    if (!failure || failure->code != failure_.code) return false;
    token_ = token;
    const std::string schedule = failure_.schedule;
    failure_ = *std::move(failure);
    if (failure_.schedule.empty()) failure_.schedule = schedule;
    return true;
  }

  // Some schedule of a smaller run; the decisions of the larger one mean nothing there.
  bool fails_with(int ranks) {
    ReplayToken smaller = token_;
    smaller.ranks = ranks;
    smaller.schedule = {};
    Explorer explorer(checker_, smaller);
    try {
      std::optional<Explorer::Found> found = explorer.explore({.schedules = kSchedules});
      return found && keep(found->token, std::move(found->failure));
    } catch (const CommunicationError&) {
      return false;  // Of the reference.
    }
  }

  void take_fewer_ranks() {
    const int most = token_.ranks;
    for (int ranks = 1; ranks < most; ++ranks) {
      if (fails_with(ranks)) return;
    }
  }

  void take_fewer_steps() {
    const int most = token_.steps;
    for (int steps = 0; steps < most; ++steps) {
      ReplayToken shorter = token_;
      shorter.steps = steps;
      if (keep(shorter, checker_.verdict(shorter))) return;
    }
  }

  // Decisions beyond the list are the plain ones: the list is cut, then its entries go to 0.
  void take_fewer_decisions() {
    const std::vector<std::uint16_t> all = token_.schedule.decisions;
    for (std::size_t length = 0; length < all.size(); ++length) {
      ReplayToken shorter = token_;
      shorter.schedule.decisions.assign(all.begin(),
                                        all.begin() + static_cast<std::ptrdiff_t>(length));
      if (keep(shorter, checker_.verdict(shorter))) break;
    }
    for (std::size_t i = 0; i < token_.schedule.decisions.size(); ++i) {
      if (token_.schedule.decisions[i] == 0) continue;
      ReplayToken plainer = token_;
      plainer.schedule.decisions[i] = 0;
      keep(plainer, checker_.verdict(plainer));
    }
  }

  Checker& checker_;
  ReplayToken token_;
  Diagnosis failure_;
};

}  // namespace

Shrunk shrink(const Program& program, const CheckOptions& options, const CheckReport& report) {
  Checker checker(program, options);
  return Shrinker(checker, report).run();
}

}  // namespace shardsim
