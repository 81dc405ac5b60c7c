#include "strategies/model/close_calls.hpp"

#include <utility>

namespace shardsim {

namespace {

CloseCalls*& place() {
  thread_local CloseCalls* active = nullptr;
  return active;
}

}  // namespace

CloseCalls::CloseCalls() : before_(place()) { place() = this; }
CloseCalls::CloseCalls(const Decided& decided) : given_(&decided), before_(place()) {
  place() = this;
}
CloseCalls::~CloseCalls() { place() = before_; }
CloseCalls* CloseCalls::active() { return place(); }

bool CloseCalls::is_above(double input) {
  const std::size_t number = numbers_.inputs.size();
  numbers_.inputs.push_back(input);
  const bool is_given = given_ != nullptr && number < given_->above.size();
  decisions_.above.push_back(is_given ? given_->above[number] : input > 0.0);
  return decisions_.above.back();
}

std::vector<int> CloseCalls::rank(const std::vector<double>& logits, std::vector<int> ranking,
                                  std::size_t count) {
  numbers_.experts_per_token = count;
  const std::size_t number = numbers_.logits.size();
  numbers_.logits.push_back(logits);
  const bool is_given = given_ != nullptr && number < given_->experts.size();
  decisions_.experts.push_back(is_given ? given_->experts[number] : std::move(ranking));
  return decisions_.experts.back();
}

}  // namespace shardsim
