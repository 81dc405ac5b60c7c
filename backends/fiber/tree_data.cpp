#include <array>

#include "backends/fiber/collective_operation.hpp"
#include "backends/fiber/fiber_world.hpp"
#include "backends/reduce.hpp"

namespace shardsim {

namespace {

// Adds up what `member`'s children have, then their children, into `sums`, by member; rounds after
// every edge, as messages do (plan_tree_messages).
class TreeSum {
 public:
  TreeSum(const DoubleTree& tree, int which, std::vector<std::vector<std::byte>>& sums)
      : tree_(tree), which_(which), sums_(sums) {}

  void add_children(int member, std::int64_t count, DType dtype, ReduceOp op) {
    std::byte* const own = sums_[static_cast<std::size_t>(member)].data();
    for (int child = 0; child < static_cast<int>(sums_.size()); ++child) {
      if (tree_.parent(which_, child) != member) continue;
      add_children(child, count, dtype, op);
      const std::array<const std::byte*, 2> inputs = {sums_[static_cast<std::size_t>(child)].data(),
                                                      own};
      reduce_chunk(inputs, own, count, dtype, op, ReductionOrder::rank, 0);
    }
  }

 private:
  const DoubleTree& tree_;
  int which_;
  std::vector<std::vector<std::byte>>& sums_;
};

int root_of(const DoubleTree& tree, int which) {
  int root = 0;
  while (tree.parent(which, root) >= 0) root = tree.parent(which, root);
  return root;
}

}  // namespace

void CollectiveOperation::reduce_by_tree(std::vector<std::byte>& result) const {
  const DoubleTree& tree = *group_->tree();
  const std::int64_t width = size_of(record_.dtype);
  const ReduceOp op = record_.reduce == ReduceOp::avg ? ReduceOp::sum : record_.reduce;
  result.clear();
  for (int which = 0; which < 2; ++which) {
    const std::int64_t count = chunk_size(record_.count, 2, which);
    const auto begin = static_cast<std::int64_t>(result.size());
    std::vector<std::vector<std::byte>> sums;
    for (const Buffers& member : buffers_) {
      const std::byte* const from = member.input.wire_data() + begin;
      sums.emplace_back(from, from + count * width);
    }
    const int root = root_of(tree, which);
    TreeSum(tree, which, sums).add_children(root, count, record_.dtype, op);
    std::vector<std::byte>& sum = sums[static_cast<std::size_t>(root)];
    if (record_.reduce == ReduceOp::avg) {
      divide_chunk(sum.data(), count, record_.dtype, group_size_);
    }
    result.insert(result.end(), sum.begin(), sum.end());
  }
}

}  // namespace shardsim
