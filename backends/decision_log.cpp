#include "backends/decision_log.hpp"

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr const char* kFix =
    "replay what a run with data recorded of the same model, layout, training and seed";

}  // namespace

void DecisionLog::add(int rank, std::string_view name, bool answer) {
  auto found = answers_.find(name);
  if (found == answers_.end()) {
    found = answers_
                .try_emplace(std::string(name),
                             std::vector<Answers>(static_cast<std::size_t>(num_ranks_)))
                .first;
  }
  found->second[static_cast<std::size_t>(rank)].push_back(answer);
}

const DecisionLog::Answers& DecisionLog::of(int rank, std::string_view name) const {
  static const Answers kNone;
  const auto found = answers_.find(name);
  return found == answers_.end() ? kNone : found->second[static_cast<std::size_t>(rank)];
}

bool DecisionReplay::next(int rank, std::string_view name) {
  auto found = taken_.find(name);
  if (found == taken_.end()) {
    found = taken_
                .try_emplace(std::string(name),
                             std::vector<std::size_t>(static_cast<std::size_t>(log_.num_ranks())))
                .first;
  }
  std::size_t& taken = found->second[static_cast<std::size_t>(rank)];
  const DecisionLog::Answers& answers = log_.of(rank, name);
  if (taken == answers.size()) {
    throw UsageError("E0506",
                     "the replayed record has " + std::to_string(answers.size()) + " decisions \"" +
                         std::string(name) + "\" of rank " + std::to_string(rank) +
                         ", this run takes more",
                     kFix);
  }
  return answers[taken++];
}

void DecisionReplay::finish() const {
  for (const auto& [name, of_ranks] : log_.all()) {
    const auto found = taken_.find(name);
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
      const std::size_t taken = found == taken_.end() ? 0 : found->second[rank];
      if (taken == of_ranks[rank].size()) continue;
      throw UsageError("E0506",
                       "the replayed record has " + std::to_string(of_ranks[rank].size()) +
                           " decisions \"" + name + "\" of rank " + std::to_string(rank) +
                           ", this run took " + std::to_string(taken),
                       kFix);
    }
  }
}

}  // namespace shardsim
