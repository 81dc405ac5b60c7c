#include "strategies/model/expert_reach.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsim {

namespace {

// The chance that none of k draws without replacement out of `all` is one of `here`.
double chance_to_miss(std::int64_t all, std::int64_t here, std::int64_t draws) {
  double chance = 1.0;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    const std::int64_t elsewhere = all - here - draw;
    if (elsewhere <= 0) return 0.0;
    chance *= static_cast<double>(elsewhere) / static_cast<double>(all - draw);
  }
  return chance;
}

// Elements that two runs [a, a_end) and [b, b_end) share.
std::int64_t overlap(std::int64_t a, std::int64_t a_end, std::int64_t b, std::int64_t b_end) {
  return std::max<std::int64_t>(std::min(a_end, b_end) - std::max(a, b), 0);
}

// Chances, not numbers of choices: by groups that are chosen of those seen so far, and experts of
// the part in them. Each next group is one of the chosen with the chance of a draw.
class GroupDraw {
 public:
  GroupDraw(const RouterOptions& router, std::int64_t here)
      : left_(router.num_groups), chosen_(router.group_topk), here_(here) {
    chances_.assign(static_cast<std::size_t>((chosen_ + 1) * (here_ + 1)), 0.0);
    chances_.front() = 1.0;
  }

  void see_group(std::int64_t of_part) {
    std::vector<double> next(chances_.size(), 0.0);
    for (std::int64_t taken = 0; taken <= chosen_; ++taken) {
      for (std::int64_t experts = 0; experts <= here_; ++experts) {
        const double chance = chances_[at(taken, experts)];
        if (chance == 0.0) continue;
        const double takes = static_cast<double>(chosen_ - taken) / static_cast<double>(left_);
        if (takes > 0.0) next[at(taken + 1, experts + of_part)] += chance * takes;
        if (takes < 1.0) next[at(taken, experts)] += chance * (1.0 - takes);
      }
    }
    chances_ = std::move(next);
    --left_;
  }

  [[nodiscard]] double chance_of(std::int64_t experts) const {
    return chances_[at(chosen_, experts)];
  }

 private:
  [[nodiscard]] std::size_t at(std::int64_t taken, std::int64_t experts) const {
    return static_cast<std::size_t>(taken * (here_ + 1) + experts);
  }

  std::int64_t left_;
  std::int64_t chosen_;
  std::int64_t here_;
  std::vector<double> chances_;
};

double chance_to_reach_part(const MoeOptions& options, std::int64_t here, std::int64_t part) {
  const RouterOptions& router = options.router;
  const std::int64_t of_group = options.num_experts / router.num_groups;
  GroupDraw draw(router, here);
  for (std::int64_t group = 0; group < router.num_groups; ++group) {
    const std::int64_t first = group * of_group;
    draw.see_group(overlap(first, first + of_group, part * here, (part + 1) * here));
  }
  double missed = 0.0;
  for (std::int64_t experts = 0; experts <= here; ++experts) {
    missed += draw.chance_of(experts) *
              chance_to_miss(of_group * router.group_topk, experts, options.experts_per_token);
  }
  return 1.0 - missed;
}

}  // namespace

double chance_to_reach(const MoeOptions& options, int parts) {
  const std::int64_t here = options.num_experts / parts;
  double sum = 0.0;
  for (std::int64_t part = 0; part < parts; ++part) {
    sum += chance_to_reach_part(options, here, part);
  }
  return sum / parts;
}

}  // namespace shardsim
