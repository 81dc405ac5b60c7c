#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include "device.hpp"

// Where operators belong. Those of forward are in the module that runs. Autograd numbers its nodes
// in the order in which a thread makes them, so a node belongs to the module that ran when its
// number came; what it does in backward belongs there, too.
namespace shardsim_torch {

namespace {

using torch::autograd::Node;

// A module or an optimizer that runs, and the node of backward within which it began; null: none.
struct Scope {
  std::int64_t module;
  bool is_optimizer;
  const Node* node;
};
thread_local std::vector<Scope> scopes;

// Nodes from a number on, until the next run begins.
struct Run {
  std::uint64_t first;
  std::int64_t module;
};

// Nodes of a graph that is so old are not known any more.
constexpr std::size_t kMostRuns = std::size_t{1} << 20U;

class Nodes {
 public:
  // Of this thread, from here on.
  void begin(std::int64_t module) {
    const std::uint64_t next = at::sequence_number::peek();
    const std::lock_guard guard(mutex_);
    std::vector<Run>& runs = of_thread_[at::RecordFunction::currentThreadId()];
    while (!runs.empty() && runs.back().first >= next) runs.pop_back();
    if (!runs.empty() && runs.back().module == module) return;
    if (runs.size() == kMostRuns) runs.erase(runs.begin(), runs.begin() + kMostRuns / 2);
    runs.push_back({next, module});
  }
  std::int64_t module_of(const Node& node) {
    const std::lock_guard guard(mutex_);
    const std::vector<Run>& runs = of_thread_[node.thread_id()];
    const auto after =
        std::upper_bound(runs.begin(), runs.end(), node.sequence_nr(),
                         [](std::uint64_t number, const Run& run) { return number < run.first; });
    return after == runs.begin() ? 0 : (after - 1)->module;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<Run>> of_thread_;
};

Nodes& nodes() {
  static Nodes all;
  return all;
}

// A node that adds to a gradient has the highest number. It comes right behind the one that
// computed what is added, and belongs where that does.
std::int64_t module_of(const Node& node) {
  thread_local std::int64_t last = 0;
  if (node.sequence_nr() != std::numeric_limits<std::uint64_t>::max()) {
    last = nodes().module_of(node);
  }
  return last;
}

void enter(std::int64_t module, bool is_optimizer) {
  scopes.push_back({module, is_optimizer, torch::autograd::get_current_node().get()});
  nodes().begin(module);
}

}  // namespace

void enter_module(std::int64_t module) { enter(module, false); }
void enter_optimizer() { enter(0, true); }

void leave() {
  if (scopes.empty()) return;
  scopes.pop_back();
  nodes().begin(scopes.empty() ? 0 : scopes.back().module);
}

std::int64_t current_place() {
  const std::shared_ptr<Node> node = torch::autograd::get_current_node();
  if (!scopes.empty() && scopes.back().node == node.get()) {
    const Scope& scope = scopes.back();
    if (scope.is_optimizer) return place_of(0, Phase::optimizer);
    return place_of(scope.module, node == nullptr ? Phase::forward : Phase::recomputation);
  }
  if (node != nullptr) return place_of(module_of(*node), Phase::backward);
  // What is called when all nodes are done.
  if (torch::autograd::get_current_graph_task_id() != -1) return place_of(0, Phase::backward);
  return place_of(0, at::GradMode::is_enabled() ? Phase::forward : Phase::none);
}

}  // namespace shardsim_torch
