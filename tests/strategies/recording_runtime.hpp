#pragma once

#include <string>
#include <vector>

#include "sim/kernel/hash.hpp"
#include "sim/kernel/memory_ledger.hpp"

#include "backends/runtime.hpp"

// A device that writes down everything it is asked for, with or without data: two runs asked for
// the same if their records are equal.
namespace shardsim::test {

class RecordingRuntime final : public Runtime, private MemoryListener {
 public:
  explicit RecordingRuntime(bool has_data) : has_data_(has_data) { ledger_.set_listener(this); }

  [[nodiscard]] bool has_data() const override { return has_data_; }
  [[nodiscard]] MemoryLedger* ledger() override { return &ledger_; }

  /// One line per operation, allocation and release, in the order they happened.
  [[nodiscard]] const std::vector<std::string>& record() const { return record_; }
  [[nodiscard]] const std::vector<ComputeOp>& ops() const { return ops_; }
  /// Activation bytes held while each of ops() ran.
  [[nodiscard]] const std::vector<std::int64_t>& activation_bytes_at() const { return held_; }
  [[nodiscard]] std::int64_t activation_bytes() const {
    return ledger_.now(MemoryCategory::activations);
  }

 protected:
  void charge(const ComputeOp& op) override {
    ops_.push_back(op);
    held_.push_back(activation_bytes());
    record_.push_back(std::string(op.name) + " " + std::string(shardsim::name_of(op.dtype)) + " " +
                      std::to_string(static_cast<int>(op.kind)) + " flops " +
                      std::to_string(op.flops) + " bytes " + std::to_string(op.bytes));
  }

 private:
  void memory_changed(MemoryCategory category, std::int64_t bytes_now) override {
    record_.push_back(std::string(shardsim::name_of(category)) + " now " +
                      std::to_string(bytes_now));
  }

  bool has_data_;
  RollingHash hash_;
  MemoryLedger ledger_{hash_};
  std::vector<std::string> record_;
  std::vector<ComputeOp> ops_;
  std::vector<std::int64_t> held_;
};

}  // namespace shardsim::test
