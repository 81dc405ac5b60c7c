#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace shardsim {

/// A first-in, first-out queue that reuses its places. At its greatest length it allocates nothing
/// (std::deque does, with every few entries), and no entry moves when one goes. It holds operations
/// under way, and their tensors. Places without an entry hold a T().
template <class T>
class RingQueue {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  void push(T value) {
    if (size_ == places_.size()) grow();
    places_[place(size_++)] = std::move(value);
  }
  /// The oldest. REQUIRES: not empty, here and below.
  [[nodiscard]] T& front() { return places_[first_]; }
  /// Counted from the oldest.
  [[nodiscard]] T& operator[](std::size_t i) { return places_[place(i)]; }
  T pop() {
    T oldest = std::exchange(places_[first_], T());
    first_ = place(1);
    --size_;
    return oldest;
  }

 private:
  [[nodiscard]] std::size_t place(std::size_t i) const {
    const std::size_t at = first_ + i;  // At most twice the places.
    return at < places_.size() ? at : at - places_.size();
  }
  void grow() {
    std::vector<T> more(places_.empty() ? 2 : 2 * places_.size());
    for (std::size_t i = 0; i < size_; ++i) more[i] = std::move(places_[place(i)]);
    places_ = std::move(more);
    first_ = 0;
  }

  std::vector<T> places_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace shardsim
