#pragma once

#include <utility>

#include "backends/runtime.hpp"

// Scopes that say how the host launches a rank's kernels.
namespace shardsim {

/// As long as it lives, operations are kernels of one CUDA graph, which the host launches with the
/// first of them. One within another has no effect. Nothing within may wait for other ranks' turns.
class Runtime::Graph {
 public:
  Graph(Runtime& runtime, bool is_captured)
      : runtime_(runtime), begins_(is_captured && runtime.next_launch_ == HostLaunch::each_kernel) {
    if (begins_) runtime_.next_launch_ = HostLaunch::graph;
  }
  ~Graph() {
    if (begins_) runtime_.next_launch_ = HostLaunch::each_kernel;
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&&) = delete;
  Graph& operator=(Graph&&) = delete;

 private:
  Runtime& runtime_;
  bool begins_;
};

/// As long as it lives, the host launches each kernel, within a graph, too: those of code that a
/// model calls and that is no part of it.
class Runtime::OutsideGraph {
 public:
  explicit OutsideGraph(Runtime& runtime)
      : runtime_(runtime), before_(std::exchange(runtime.next_launch_, HostLaunch::each_kernel)) {}
  ~OutsideGraph() { runtime_.next_launch_ = before_; }
  OutsideGraph(const OutsideGraph&) = delete;
  OutsideGraph& operator=(const OutsideGraph&) = delete;
  OutsideGraph(OutsideGraph&&) = delete;
  OutsideGraph& operator=(OutsideGraph&&) = delete;

 private:
  Runtime& runtime_;
  HostLaunch before_;
};

}  // namespace shardsim
