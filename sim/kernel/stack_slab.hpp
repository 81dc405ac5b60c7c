#pragma once

#include <cstddef>

#include <boost/context/stack_context.hpp>

// Stacks for all fibers of a run, cut from one mapping. Below each lies a guard page, so that an
// overflow is a clean fault instead of another rank's corrupted memory.
namespace shardsim {

class StackSlab {
 public:
  /// Throws LimitError when the address space or the mappings cannot be had.
  StackSlab(std::size_t count, std::size_t stack_bytes);
  ~StackSlab();
  StackSlab(const StackSlab&) = delete;
  StackSlab& operator=(const StackSlab&) = delete;

  /// The stack of fiber `index`, for Boost.Context.
  [[nodiscard]] boost::context::stack_context stack(std::size_t index) const;

 private:
  std::size_t page_;
  std::size_t stride_;
  std::size_t total_;
  char* base_ = nullptr;
};

}  // namespace shardsim
