#include "backends/message/message_plan.hpp"

#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// Plans against the closed formulas of what a member moves, and against each other: every send has
// its receive.
namespace shardsim {
namespace {

using Kind = MessageStep::Kind;

constexpr int kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16};

std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& chunks) {
  std::vector<std::int64_t> offsets(chunks.size() + 1, 0);
  std::partial_sum(chunks.begin(), chunks.end(), offsets.begin() + 1);
  return offsets;
}

// Uneven, with an empty one: 0, 1, 2, 0, 1, ...
std::vector<std::int64_t> uneven(int size) {
  std::vector<std::int64_t> chunks;
  for (int member = 0; member < size; ++member) chunks.push_back(member % 3);
  return chunks;
}

Traffic moved(const MessagePlan& plan, int size, int member) {
  Traffic traffic;
  for (const MessageRound& round : plan.rounds) {
    for (const MessageStep& message : round.messages) {
      const bool sends = message.kind == Kind::send;
      (sends ? traffic.sent : traffic.received) += message.slice.count;
      if (sends) ++traffic.messages;
      if (sends && message.peer == (member + 1) % size) traffic.to_next += message.slice.count;
    }
  }
  return traffic;
}

void check_traffic(const Traffic& counted, const Traffic& formula) {
  CHECK(counted.sent == formula.sent);
  CHECK(counted.received == formula.received);
  CHECK(counted.messages == formula.messages);
}

// In the order of each side, what one sends is what the other expects.
void check_matched(const std::vector<MessagePlan>& plans) {
  std::map<std::pair<int, int>, std::vector<std::int64_t>> sent;
  std::map<std::pair<int, int>, std::vector<std::int64_t>> received;
  for (int member = 0; member < static_cast<int>(plans.size()); ++member) {
    for (const MessageRound& round : plans[static_cast<std::size_t>(member)].rounds) {
      for (const MessageStep& message : round.messages) {
        const bool sends = message.kind == Kind::send;
        auto& list = sends ? sent[{member, message.peer}] : received[{message.peer, member}];
        list.push_back(message.slice.count);
      }
    }
  }
  CHECK(sent == received);
}

}  // namespace

TEST_CASE("plans of ring, chain and star move what the formulas say, and match") {
  for (const int size : kSizes) {
    const std::vector<std::int64_t> offsets = offsets_of(uneven(size));
    const std::int64_t total = offsets.back();
    const auto chunk = [&](int member) {
      const auto index = static_cast<std::size_t>((member + size) % size);
      return offsets[index + 1] - offsets[index];
    };
    for (int root = 0; root < size; ++root) {
      for (const CollectiveKind kind :
           {CollectiveKind::reduce_scatter, CollectiveKind::all_gather, CollectiveKind::broadcast,
            CollectiveKind::reduce, CollectiveKind::gather, CollectiveKind::scatter}) {
        INFO(name_of(kind) << ", " << size << " members, root " << root);
        std::vector<MessagePlan> plans;
        for (int member = 0; member < size; ++member) {
          plans.push_back(plan_messages({kind, size, member, root, offsets}));
          const Traffic counted = moved(plans.back(), size, member);
          const CollectiveRow& row = row_of(kind);
          switch (row.path) {
            case CollectivePath::ring:
              check_traffic(counted, ring_traffic(row, size, total, chunk(member - 1),
                                                  chunk(member), chunk(member + 1)));
              break;
            case CollectivePath::star:
              check_traffic(counted, star_traffic(row, size, member, root, total - chunk(root),
                                                  chunk(member)));
              break;
            default:
              check_traffic(counted, chain_traffic(row, size, member, root, total));
          }
        }
        check_matched(plans);
      }
    }
  }
}

TEST_CASE("plans of all_reduce by ring and tree move what the formulas say, and match") {
  for (const int size : kSizes) {
    for (const int per_node : {1, 2, 4}) {
      if (size % per_node != 0) continue;
      std::vector<int> members(static_cast<std::size_t>(size));
      std::iota(members.begin(), members.end(), 0);
      const DoubleTree tree(GroupLayout(test_cluster(size, per_node), members));
      for (const std::int64_t count : {0, 1, 7, 32}) {
        INFO(size << " members, " << per_node << " per node, " << count << " elements");
        std::vector<std::int64_t> chunks;
        for (int i = 0; i < size; ++i) chunks.push_back(chunk_size(count, size, i));
        const std::vector<std::int64_t> offsets = offsets_of(chunks);
        std::vector<MessagePlan> rings;
        std::vector<MessagePlan> trees;
        for (int member = 0; member < size; ++member) {
          rings.push_back(plan_messages({CollectiveKind::all_reduce, size, member, -1, offsets}));
          const Traffic counted = moved(rings.back(), size, member);
          const auto chunk = [&](int index) { return chunk_size(count, size, index % size); };
          check_traffic(counted,
                        ring_traffic(collective::kAllReduce, size, count, chunk(member + size - 1),
                                     chunk(member), chunk(member + 1)));
          CHECK(counted.to_next == counted.sent);
          trees.push_back(plan_tree_messages(tree, size, member, count));
          check_traffic(moved(trees.back(), size, member),
                        tree.all_reduce_traffic(member, count, 1));
        }
        check_matched(rings);
        check_matched(trees);
      }
    }
  }
}

TEST_CASE("the plan of a ring over three members, message by message") {
  const std::vector<std::int64_t> offsets = {0, 2, 4, 5};
  const MessagePlan plan = plan_messages({CollectiveKind::all_reduce, 3, 0, -1, offsets});
  REQUIRE(plan.rounds.size() == 4);
  const auto check = [](const MessageRound& round, Kind arrives, Slice in, Slice out) {
    REQUIRE(round.messages.size() == 2);
    CHECK(round.messages[0].kind == arrives);
    CHECK(round.messages[0].peer == 2);
    CHECK(round.messages[0].slice.begin == in.begin);
    CHECK(round.messages[0].slice.count == in.count);
    CHECK(round.messages[1].kind == Kind::send);
    CHECK(round.messages[1].peer == 1);
    CHECK(round.messages[1].slice.begin == out.begin);
    CHECK(round.messages[1].slice.count == out.count);
  };
  check(plan.rounds[0], Kind::receive_reduced, {2, 2}, {4, 1});
  check(plan.rounds[1], Kind::receive_reduced, {0, 2}, {2, 2});
  CHECK(plan.rounds[0].completed.count == 0);
  CHECK(plan.rounds[1].completed.count == 2);
  check(plan.rounds[2], Kind::receive, {4, 1}, {0, 2});
  check(plan.rounds[3], Kind::receive, {2, 2}, {4, 1});
}

TEST_CASE("pairwise plans leave out what is empty and what stays") {
  const std::vector<std::int64_t> send = {3, 0, 2};
  const std::vector<std::int64_t> receive = {3, 1, 0};
  const MessagePlan plan = plan_pairwise_messages(0, send, receive);
  REQUIRE(plan.rounds.size() == 1);
  REQUIRE(plan.rounds[0].messages.size() == 2);
  CHECK(plan.rounds[0].messages[0].kind == Kind::receive);
  CHECK(plan.rounds[0].messages[0].peer == 1);
  CHECK(plan.rounds[0].messages[0].slice.begin == 3);
  CHECK(plan.rounds[0].messages[1].peer == 2);
  CHECK(plan.rounds[0].messages[1].slice.begin == 3);
}

}  // namespace shardsim
