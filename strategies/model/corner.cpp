#include "strategies/model/corner.hpp"

namespace shardsim {

namespace {

CornerSides*& place() {
  thread_local CornerSides* active = nullptr;
  return active;
}

}  // namespace

CornerSides::CornerSides() : before_(place()) { place() = this; }
CornerSides::CornerSides(const std::vector<bool>& above) : above_(&above), before_(place()) {
  place() = this;
}
CornerSides::~CornerSides() { place() = before_; }
CornerSides* CornerSides::active() { return place(); }

bool CornerSides::is_above(double input) {
  const std::size_t number = inputs_.size();
  inputs_.push_back(input);
  return above_ != nullptr && number < above_->size() ? (*above_)[number] : input > 0.0;
}

}  // namespace shardsim
