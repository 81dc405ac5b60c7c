#include <cmath>
#include <limits>
#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/training/train.hpp"

namespace shardsim {

namespace {

// Schedules count microbatches in int, as they count everything.
constexpr std::int64_t kMostMicrobatches = std::numeric_limits<int>::max();

void require_of_training(bool holds, const char* name, const std::string& value,
                         const std::string& fix) {
  if (holds) return;
  throw UsageError("E0791", "training: " + std::string(name) + " is " + value, fix);
}

}  // namespace

void validate(const TrainingPlan& plan) {
  require_of_training(plan.steps >= 0, "steps", std::to_string(plan.steps),
                      "give a number of 0 or more");
  require_of_training(plan.micro_batch_size >= 1, "micro_batch_size",
                      std::to_string(plan.micro_batch_size),
                      "give each microbatch 1 sample or more");
  require_of_training(
      plan.num_microbatches >= 1 && plan.num_microbatches <= kMostMicrobatches, "num_microbatches",
      std::to_string(plan.num_microbatches),
      "give each step 1 microbatch or more, at most " + std::to_string(kMostMicrobatches));
  require_of_training(
      plan.ignore_fraction >= 0.0 && plan.ignore_fraction < 1.0, "ignore_fraction",
      std::to_string(plan.ignore_fraction),
      "ignore a share of at least 0 and below 1: without targets there is nothing to train on");
  require_of_training(std::isfinite(plan.max_grad_norm) && plan.max_grad_norm >= 0.0,
                      "max_grad_norm", std::to_string(plan.max_grad_norm),
                      "give a finite norm above 0, or 0 to clip nothing");
  require_of_training(plan.global_batch >= 0, "global_batch", std::to_string(plan.global_batch),
                      "give a number of samples, or 0 where all ranks have equally many");
  validate(plan.loss_scaling);
}

}  // namespace shardsim
