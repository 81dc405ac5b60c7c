#include "sim/kernel/memory_ledger.hpp"

#include "sim/kernel/error.hpp"

namespace shardsim {

std::string_view name_of(MemoryCategory category) {
  static constexpr std::array<std::string_view, kNumMemoryCategories> kNames = {
      "params", "grads", "optimizer", "activations", "comm"};
  return kNames.at(static_cast<std::size_t>(category));
}

void MemoryLedger::allocate(MemoryCategory category, std::int64_t bytes) {
  std::int64_t total = 0;
  if (__builtin_add_overflow(total_, bytes, &total)) {
    throw LimitError("E0302", "device memory in use does not fit in 64 bits",
                     "check the model's sizes");
  }
  total_ = total;
  std::int64_t& current = now_[index(category)];
  current += bytes;
  if (current > category_peaks_[index(category)]) category_peaks_[index(category)] = current;
  if (total_ > peak_) {
    peak_ = total_;
    at_peak_ = now_;
  }
  hash_->add((bytes << 3U) | static_cast<std::int64_t>(category));
  if (listener_ != nullptr) listener_->memory_changed(category, current);
}

void MemoryLedger::release(MemoryCategory category, std::int64_t bytes) noexcept {
  total_ -= bytes;
  std::int64_t& current = now_[index(category)];
  current -= bytes;
  hash_->add(-((bytes << 3U) | static_cast<std::int64_t>(category)) - 1);
  if (listener_ != nullptr) listener_->memory_changed(category, current);
}

void MemoryLedger::reset_peaks() {
  peak_ = total_;
  at_peak_ = now_;
  category_peaks_ = now_;
}

}  // namespace shardsim
