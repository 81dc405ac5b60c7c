#include "backends/decision_log.hpp"

#include <utility>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr const char* kFix = "replay a record of the same model, layout, training and seed";

// The entries of a name, one per rank; made at the first request.
template <class PerRank>
std::vector<PerRank>& of_name(std::map<std::string, std::vector<PerRank>, std::less<>>& all,
                              std::string_view name, int num_ranks) {
  auto found = all.find(name);
  if (found == all.end()) {
    found = all.try_emplace(std::string(name),
                            std::vector<PerRank>(static_cast<std::size_t>(num_ranks)))
                .first;
  }
  return found->second;
}

template <class PerRank>
const PerRank& of_rank(const std::map<std::string, std::vector<PerRank>, std::less<>>& all,
                       std::string_view name, int rank) {
  static const PerRank kNone;
  const auto found = all.find(name);
  return found == all.end() ? kNone : found->second[static_cast<std::size_t>(rank)];
}

template <class PerRank, class Taken>
void require_all_taken(const std::map<std::string, std::vector<PerRank>, std::less<>>& all,
                       const Taken& taken_by_name) {
  for (const auto& [name, of_ranks] : all) {
    const auto found = taken_by_name.find(name);
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
      const std::size_t taken = found == taken_by_name.end() ? 0 : found->second[rank];
      if (taken == of_ranks[rank].size()) continue;
      throw UsageError("E0506",
                       "the replayed record has " + std::to_string(of_ranks[rank].size()) +
                           " decisions \"" + name + "\" of rank " + std::to_string(rank) +
                           ", this run took " + std::to_string(taken),
                       kFix);
    }
  }
}

}  // namespace

void DecisionLog::add(int rank, std::string_view name, bool answer) {
  of_name(answers_, name, num_ranks_)[static_cast<std::size_t>(rank)].push_back(answer);
}

const DecisionLog::Answers& DecisionLog::of(int rank, std::string_view name) const {
  return of_rank(answers_, name, rank);
}

void DecisionLog::add_numbers(int rank, std::string_view name, std::vector<std::int64_t> numbers) {
  of_name(numbers_, name, num_ranks_)[static_cast<std::size_t>(rank)].push_back(std::move(numbers));
}

const DecisionLog::Numbers& DecisionLog::numbers_of(int rank, std::string_view name) const {
  return of_rank(numbers_, name, rank);
}

std::size_t DecisionReplay::take(Taken& taken, int rank, std::string_view name,
                                 std::size_t available) const {
  std::size_t& count = of_name(taken, name, log_.num_ranks())[static_cast<std::size_t>(rank)];
  if (count == available) {
    throw UsageError("E0506",
                     "the replayed record has " + std::to_string(available) + " decisions \"" +
                         std::string(name) + "\" of rank " + std::to_string(rank) +
                         ", this run takes more",
                     kFix);
  }
  return count++;
}

bool DecisionReplay::next(int rank, std::string_view name) {
  const DecisionLog::Answers& answers = log_.of(rank, name);
  return answers[take(taken_, rank, name, answers.size())];
}

const std::vector<std::int64_t>& DecisionReplay::next_numbers(int rank, std::string_view name) {
  const DecisionLog::Numbers& numbers = log_.numbers_of(rank, name);
  return numbers[take(numbers_taken_, rank, name, numbers.size())];
}

void DecisionReplay::finish() const {
  require_all_taken(log_.all(), taken_);
  require_all_taken(log_.all_numbers(), numbers_taken_);
}

}  // namespace shardsim
