#include "strategies/model/close_calls.hpp"

#include <algorithm>
#include <utility>

namespace shardsim {

namespace {

CloseCalls*& place() {
  thread_local CloseCalls* active = nullptr;
  return active;
}

}  // namespace

CloseCalls::CloseCalls() : before_(place()) { place() = this; }
CloseCalls::CloseCalls(const Modules& given, int last)
    : given_(&given), last_(last), before_(place()) {
  place() = this;
}
CloseCalls::~CloseCalls() { place() = before_; }
CloseCalls* CloseCalls::active() { return place(); }

void CloseCalls::forward(int module) {
  module_ = module;
  is_again_ = false;
  next_input_ = next_token_ = 0;
}

void CloseCalls::backward(int module) {
  forward(module);
  is_again_ = true;
}

const CloseCalls::Calls* CloseCalls::decided() const {
  if (is_again_) return &modules_.at(module_);
  if (given_ == nullptr || module_ > last_) return nullptr;
  return &given_->at(module_);
}

bool CloseCalls::is_above(double input) {
  const Calls* const calls = decided();
  const std::size_t number = next_input_++;
  const bool above = calls == nullptr ? input > 0.0 : calls->above.at(number);
  if (!is_again_) {
    modules_[module_].inputs.push_back(input);
    modules_[module_].above.push_back(above);
  }
  return above;
}

std::vector<int> CloseCalls::rank(const std::vector<double>& logits, std::vector<int> ranking,
                                  std::size_t count) {
  const Calls* const calls = decided();
  const std::size_t number = next_token_++;
  if (calls != nullptr && std::ranges::is_permutation(calls->ranking.at(number), ranking)) {
    ranking = calls->ranking.at(number);
  }
  if (!is_again_) {
    Calls& mine = modules_[module_];
    mine.logits.push_back(logits);
    mine.ranking.push_back(ranking);
    mine.used.push_back(count);
  }
  return ranking;
}

}  // namespace shardsim
