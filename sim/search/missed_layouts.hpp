#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "sim/search/done_layouts.hpp"
#include "sim/search/found_layouts.hpp"
#include "sim/search/layout_bounds.hpp"
#include "sim/search/open_layouts.hpp"

// Layouts that are too large for the device: groups and their members, the smallest first.
namespace shardsim {

class MissedLayouts {
 public:
  /// The references outlive it.
  MissedLayouts(LayoutBounds& bounds, const FoundLayouts& found, const DoneLayouts& done,
                std::function<bool()> is_over)
      : bounds_(bounds),
        found_(found),
        done_(done),
        is_over_(std::move(is_over)),
        queue_([](const Bound& bound) { return static_cast<double>(bound.device_bytes); }) {}

  void push(const OpenLayouts& miss) { queue_.push(miss); }
  [[nodiscard]] OpenQueue& queue() { return queue_; }

  /// Takes groups apart until the next miss is one candidate. False: there is none below `least`
  /// bytes.
  [[nodiscard]] bool next(std::int64_t least, OpenLayouts& miss);

 private:
  LayoutBounds& bounds_;
  const FoundLayouts& found_;
  const DoneLayouts& done_;
  const std::function<bool()> is_over_;
  OpenQueue queue_;
};

}  // namespace shardsim
