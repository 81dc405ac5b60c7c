#include "backends/replay/replay_operation.hpp"

#include <algorithm>

namespace shardsim {

bool ReplayOperation::is_followed_by(const ReplayOperation& other) const {
  return std::ranges::find(dependents, &other) != dependents.end();
}

ReplayGroup::ReplayGroup(const Cluster& cluster, std::uint64_t path, std::uint64_t id,
                         const std::string& name, std::vector<int> members)
    : path(path),
      id(id),
      name(name),
      layout(cluster, std::move(members)),
      counters(layout.members.size()) {}

const DoubleTree& ReplayGroup::double_tree() {
  if (!tree) tree.emplace(layout);
  return *tree;
}

GroupLinks& ReplayGroup::links() {
  if (off_ring == nullptr) off_ring = std::make_unique<GroupLinks>();
  return *off_ring;
}

ReplayOperation& ReplayPool::take(ReplayOperation::Kind kind, ReplayGroup& group) {
  if (free_.empty()) free_.push_back(&all_.emplace_back());
  ReplayOperation& operation = *free_.back();
  free_.pop_back();
  operation.kind = kind;
  operation.resolved = false;
  operation.even = false;
  operation.group = &group;
  operation.start = Time();
  operation.end = Time();
  operation.pending = 0;
  operation.num_arrived = 0;
  operation.algorithm = Algorithm::ring;
  operation.message = nullptr;
  operation.pairs.clear();
  operation.parts.clear();
  return operation;
}

}  // namespace shardsim
