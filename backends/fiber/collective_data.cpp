#include <algorithm>
#include <array>
#include <utility>

#include "backends/fiber/collective_operation.hpp"
#include "backends/fiber/fiber_world.hpp"
#include "backends/reduce.hpp"

// The effect of collectives on data, written as the definitions of the operations: by member and by
// chunk. Runs when all members have posted, never at post.
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

// In bytes.
std::vector<std::int64_t> CollectiveOperation::chunk_offsets() const {
  std::vector<std::int64_t> offsets =
      shardsim::chunk_offsets(*row_, record_.count, counts_, group_size_);
  for (std::int64_t& offset : offsets) offset *= size_of(record_.dtype);
  return offsets;
}

Tensor CollectiveOperation::given_by(std::size_t member, Carried how) const {
  return as_moved(buffers_[member].input, how, group_->world_rank(static_cast<int>(member)));
}

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

// Reduces chunk after chunk into `result`, which holds the full buffer.
void CollectiveOperation::reduce_all(std::vector<std::byte>& result) const {
  const ReductionOrder order = group_->world().options().reduction_order;
  const bool is_sum = record_.reduce == ReduceOp::sum || record_.reduce == ReduceOp::avg;
  if (order == ReductionOrder::wire && algorithm_ == Algorithm::tree) {
    return reduce_by_tree(result);
  }
  const std::vector<std::int64_t> offsets = chunk_offsets();
  result.resize(static_cast<std::size_t>(offsets.back()));
  std::vector<Tensor> terms;
  for (std::size_t member = 0; member < buffers_.size(); ++member) {
    terms.push_back(given_by(member, is_sum ? Carried::terms : Carried::copies));
  }
  std::vector<const std::byte*> inputs(static_cast<std::size_t>(group_size_));
  for (int part = 0; part < group_size_; ++part) {
    const std::int64_t begin = offsets[static_cast<std::size_t>(part)];
    const std::int64_t end = offsets[static_cast<std::size_t>(part) + 1];
    if (begin == end) continue;  // A short buffer among many members has few chunks.
    for (std::size_t member = 0; member < inputs.size(); ++member) {
      inputs[member] = terms[member].wire_data() + begin;
    }
    // A chain to the root adds all chunks in the same order: the root's.
    const int last = row_->path == CollectivePath::chain ? record_.root : part;
    reduce_chunk(inputs, result.data() + begin, (end - begin) / size_of(record_.dtype),
                 record_.dtype, record_.reduce, order, last);
  }
}

void CollectiveOperation::combine() {
  std::vector<std::byte> full;
  const std::vector<std::int64_t> offsets = chunk_offsets();
  const auto root = static_cast<std::size_t>(std::max(record_.root, 0));
  if (row_->reduces) {
    reduce_all(full);
  } else if (row_->input == BufferPart::chunk) {
    full.resize(static_cast<std::size_t>(offsets.back()));
    for (std::size_t member = 0; member < buffers_.size(); ++member) {
      copy_bytes(full.data() + offsets[member], given_by(member, Carried::copies).wire_data(),
                 offsets[member + 1] - offsets[member]);
    }
  } else if (row_->path == CollectivePath::pairs) {
    return combine_all_to_all();
  } else {  // Everything comes from the root.
    const Tensor sent = given_by(root, Carried::copies);
    const std::byte* const from = sent.wire_data();
    full.assign(from, from + record_.count * size_of(record_.dtype));
  }
  const bool chunked = row_->output == BufferPart::chunk;
  const bool root_only = row_->root == RootRole::target;
  for (std::size_t member = 0; member < buffers_.size(); ++member) {
    if (root_only && member != root) continue;
    const std::int64_t begin = chunked ? offsets[member] : 0;
    const std::int64_t end = chunked ? offsets[member + 1] : static_cast<std::int64_t>(full.size());
    copy_bytes(buffers_[member].output.wire_data(), full.data() + begin, end - begin);
  }
}

void CollectiveOperation::combine_all_to_all() {
  const std::int64_t width = size_of(record_.dtype);
  // Read everything before anything is written: buffers may be the same.
  std::vector<std::vector<std::byte>> arrivals(buffers_.size());
  for (std::size_t from = 0; from < buffers_.size(); ++from) {
    std::int64_t offset = 0;
    const Tensor sent = given_by(from, Carried::copies);
    for (std::size_t to = 0; to < buffers_.size(); ++to) {
      const std::byte* begin = sent.wire_data() + offset;
      const std::int64_t bytes = splits_[from].send[to] * width;
      arrivals[to].insert(arrivals[to].end(), begin, begin + bytes);
      offset += bytes;
    }
  }
  for (std::size_t to = 0; to < buffers_.size(); ++to) {
    copy_bytes(buffers_[to].output.wire_data(), arrivals[to].data(),
               static_cast<std::int64_t>(arrivals[to].size()));
  }
}

bool CollectiveOperation::check_splits() {
  for (int from = 0; from < group_size_; ++from) {
    for (int to = 0; to < group_size_; ++to) {
      const std::int64_t sent =
          splits_[static_cast<std::size_t>(from)].send[static_cast<std::size_t>(to)];
      const std::int64_t expected =
          splits_[static_cast<std::size_t>(to)].recv[static_cast<std::size_t>(from)];
      if (sent == expected) continue;
      Diagnosis diagnosis = group_->report("A2A_SPLIT");
      diagnosis.summary = record_.name + std::string(": member ") + std::to_string(from) +
                          " sends " + std::to_string(sent) + " elements to member " +
                          std::to_string(to) + ", which expects " + std::to_string(expected);
      diagnosis.sequence = sequence_;
      diagnosis.time = start();
      diagnosis.sides = {{.ranks = {group_->world_rank(from)},
                          .action = "sends " + std::to_string(sent),
                          .site = splits_[static_cast<std::size_t>(from)].site},
                         {.ranks = {group_->world_rank(to)},
                          .action = "expects " + std::to_string(expected),
                          .site = splits_[static_cast<std::size_t>(to)].site}};
      diagnosis.hint = "exchange the counts first; row i of send_counts is column i of recv_counts";
      group_->world().engine().fail(std::move(diagnosis));
      return false;
    }
  }
  return true;
}

}  // namespace shardsim
