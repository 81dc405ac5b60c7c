#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

namespace {

void require_of_sync(bool holds, const char* name, const std::string& value, const char* fix) {
  if (holds) return;
  throw UsageError("E0792", "gradient synchronization: " + std::string(name) + " is " + value, fix);
}

void require_floating(const char* name, DType dtype) {
  require_of_sync(is_floating(dtype) && dtype != DType::fp8_e4m3, name, std::string(name_of(dtype)),
                  "use one of fp64, fp32, bf16, fp16");
}

}  // namespace

void validate(const SyncPlan& plan) {
  require_floating("weight_dtype", plan.weight_dtype);
  require_floating("master_dtype", plan.master_dtype);
  require_floating("gradient_dtype", plan.gradient_dtype);
  require_of_sync(plan.prefetch_units >= 0, "prefetch_units", std::to_string(plan.prefetch_units),
                  "gather 1 unit or more ahead, or use 0 for none");
  require_of_sync(plan.reductions_in_flight >= 0, "reductions_in_flight",
                  std::to_string(plan.reductions_in_flight),
                  "let 1 reduction or more keep its buffer, or use 0 for none");
  require_of_sync(plan.max_staleness >= 0, "max_staleness", std::to_string(plan.max_staleness),
                  "apply gradients 1 update late or more, or use 0 to wait for them");
  validate(plan.local);
  validate(plan.compression);
}

}  // namespace shardsim
