#include "strategies/sharded_optimizer/agreement.hpp"

#include <system_error>

namespace shardsim {

SaveStatus agree(Runtime& runtime, Communicator& world, const SaveStatus& own) {
  const Tensor number = runtime.allocate(MemoryCategory::comm, {1}, DType::int64);
  runtime.write_scalar(number, static_cast<double>(own.number()));
  world
      .all_reduce(number, ReduceOp::max,
                  {.label = "checkpoint status", .traffic = TrafficClass::scalar})
      .wait();
  const auto worst = static_cast<std::int64_t>(runtime.read_scalar(number));
  return worst == own.number() ? own : SaveStatus::from_number(worst);
}

bool is_equal_everywhere(Runtime& runtime, Communicator& world, std::int64_t own) {
  const Tensor extremes = runtime.allocate(MemoryCategory::comm, {2}, DType::int64);
  runtime.off_the_clock([&] {
    extremes.set(0, static_cast<double>(own));
    extremes.set(1, -static_cast<double>(own));
  });
  world
      .all_reduce(extremes, ReduceOp::max,
                  {.label = "checkpoint agreement", .traffic = TrafficClass::scalar})
      .wait();
  bool equal = true;
  runtime.off_the_clock([&] { equal = extremes.get(0) == -extremes.get(1); });
  return equal;
}

void raise_load_failure(const SaveStatus& status, const std::string& what) {
  if (status.ok()) return;
  std::string message = "rank " + std::to_string(status.rank) + " could not load " + what;
  if (status.error_number != 0) {
    message += std::string(": ") + name_of(status.operation) +
               " failed: " + std::generic_category().message(status.error_number) + " (errno " +
               std::to_string(status.error_number) + ")";
  } else {
    message += ": " + (status.detail.empty() ? "its own message says why" : status.detail);
  }
  throw CheckpointError(status.problem, message);
}

}  // namespace shardsim
