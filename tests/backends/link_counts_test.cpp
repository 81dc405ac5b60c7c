#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "tests/backends/fiber_fixture.hpp"

// Bytes and messages, per rank and per link, against the formulas of the algorithms written down
// once more, message by message: chunk i of a ring starts at member i, and so on. N is the size of
// the group, c[i] the chunk of member i, in bytes.
namespace shardsim {
namespace {

using Bytes = std::int64_t;
using Chunks = std::vector<Bytes>;

// The bytes and messages that one operation is to send, by sender and receiver.
class Expected {
 public:
  void message(int from, int to, Bytes bytes) {
    LinkCounts& link = links_[{from, to}];
    link.sent += bytes;
    link.received += bytes;
    ++link.messages;
  }
  [[nodiscard]] const LinkTable& links() const { return links_; }

 private:
  LinkTable links_;
};

// N - 1 rounds. In round k member i passes on the chunk that started at member i - k - `shift`.
void ring_rounds(Expected& expected, const Chunks& chunks, int shift) {
  const int size = static_cast<int>(chunks.size());
  for (int round = 0; round < size - 1; ++round) {
    for (int i = 0; i < size; ++i) {
      const int chunk = (i - round - shift + 2 * size) % size;
      expected.message(i, (i + 1) % size, chunks[static_cast<std::size_t>(chunk)]);
    }
  }
}

// Reducing ends with chunk i at member i, so that its last hop is to i: it starts at i + 1.
void ring_reduce_scatter(Expected& expected, const Chunks& chunks) {
  ring_rounds(expected, chunks, 1);
}
void ring_all_gather(Expected& expected, const Chunks& chunks) { ring_rounds(expected, chunks, 0); }

Chunks even_chunks(Bytes elements, int size, Bytes width) {
  Chunks chunks;
  for (int i = 0; i < size; ++i)
    chunks.push_back((elements / size + (i < elements % size)) * width);
  return chunks;
}

struct Case {
  int size = 1;
  int root = 0;
  std::int64_t count = 0;                         // For operations that take any count.
  std::vector<std::int64_t> counts;               // Uneven chunks; some may be empty.
  std::vector<std::vector<std::int64_t>> splits;  // [from][to]
};
constexpr Bytes kWidth = 2;  // bf16

Case random_case() {
  Case made;
  made.size = *rc::gen::inRange(1, 10);
  made.root = *rc::gen::inRange(0, made.size);
  made.count = *rc::gen::inRange<std::int64_t>(0, 40);
  const auto random_counts = [&made] {
    return *rc::gen::container<std::vector<std::int64_t>>(static_cast<std::size_t>(made.size),
                                                          rc::gen::inRange<std::int64_t>(0, 5));
  };
  made.counts = random_counts();
  for (int from = 0; from < made.size; ++from) made.splits.push_back(random_counts());
  return made;
}

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) sum += count;
  return sum;
}

// Buffers of one rank, kept until its operations have ended.
class Buffers {
 public:
  explicit Buffers(Runtime& runtime) : runtime_(runtime) {}
  Tensor make(std::int64_t count) {
    kept_.push_back(runtime_.allocate(MemoryCategory::comm, {count}, DType::bf16));
    return kept_.back();
  }

 private:
  Runtime& runtime_;
  std::vector<Tensor> kept_;
};

// One operation on a group of its own, and what it is to send.
struct Operation {
  std::function<Work(Buffers&, Communicator&)> post;
  std::function<void(Expected&)> expect;
};

using Operations = std::map<std::string, Operation>;

std::int64_t at(const std::vector<std::int64_t>& values, int i) {
  return values[static_cast<std::size_t>(i)];
}

Chunks uneven_chunks(const Case& c) {
  Chunks chunks;
  for (const std::int64_t count : c.counts) chunks.push_back(count * kWidth);
  return chunks;
}

void add_rings(const Case& c, Operations& all) {
  const Chunks uneven = uneven_chunks(c);
  const std::int64_t total = sum_of(c.counts);
  all["all_reduce"] = {
      [c](Buffers& r, Communicator& g) { return g.all_reduce(r.make(c.count), ReduceOp::sum); },
      [c](Expected& e) {
        const Chunks chunks = even_chunks(c.count, c.size, kWidth);
        ring_reduce_scatter(e, chunks);
        ring_all_gather(e, chunks);
      }};
  all["reduce_scatter"] = {[c, total](Buffers& r, Communicator& g) {
                             return g.reduce_scatter(r.make(at(c.counts, g.rank())), r.make(total),
                                                     ReduceOp::sum, {.counts = c.counts});
                           },
                           [uneven](Expected& e) { ring_reduce_scatter(e, uneven); }};
  all["all_gather"] = {[c, total](Buffers& r, Communicator& g) {
                         return g.all_gather(r.make(total), r.make(at(c.counts, g.rank())),
                                             {.counts = c.counts});
                       },
                       [uneven](Expected& e) { ring_all_gather(e, uneven); }};
}

void add_chains(const Case& c, Operations& all) {
  const auto chain = [c](Expected& e, int start) {
    for (int hop = 0; hop < c.size - 1; ++hop) {
      e.message((start + hop) % c.size, (start + hop + 1) % c.size, c.count * kWidth);
    }
  };
  all["broadcast"] = {
      [c](Buffers& r, Communicator& g) { return g.broadcast(r.make(c.count), c.root); },
      [c, chain](Expected& e) { chain(e, c.root); }};
  all["reduce"] = {
      [c](Buffers& r, Communicator& g) { return g.reduce(r.make(c.count), ReduceOp::sum, c.root); },
      [c, chain](Expected& e) { chain(e, (c.root + 1) % c.size); }};
}

void add_stars(const Case& c, Operations& all) {
  const Chunks uneven = uneven_chunks(c);
  const std::int64_t total = sum_of(c.counts);
  const auto star = [c, uneven](Expected& e, bool gathers) {
    for (int other = 0; other < c.size; ++other) {
      if (other == c.root) continue;
      e.message(gathers ? other : c.root, gathers ? c.root : other,
                uneven[static_cast<std::size_t>(other)]);
    }
  };
  all["gather"] = {[c, total](Buffers& r, Communicator& g) {
                     return g.gather(r.make(total), r.make(at(c.counts, g.rank())), c.root,
                                     {.counts = c.counts});
                   },
                   [star](Expected& e) { star(e, true); }};
  all["scatter"] = {[c, total](Buffers& r, Communicator& g) {
                      return g.scatter(r.make(at(c.counts, g.rank())), r.make(total), c.root,
                                       {.counts = c.counts});
                    },
                    [star](Expected& e) { star(e, false); }};
}

void add_messages(const Case& c, Operations& all) {
  all["all_to_all"] = {
      [c](Buffers& r, Communicator& g) {
        const std::vector<std::int64_t>& send = c.splits[static_cast<std::size_t>(g.rank())];
        std::vector<std::int64_t> recv;
        for (const auto& row : c.splits) recv.push_back(at(row, g.rank()));
        return g.all_to_all(r.make(sum_of(recv)), r.make(sum_of(send)), send, recv, {}, {});
      },
      [c](Expected& e) {
        for (int from = 0; from < c.size; ++from) {
          for (int to = 0; to < c.size; ++to) {
            const std::int64_t split = at(c.splits[static_cast<std::size_t>(from)], to);
            if (from != to && split > 0) e.message(from, to, split * kWidth);
          }
        }
      }};
  all["barrier"] = {[](Buffers&, Communicator& g) { return g.barrier(); }, [](Expected&) {}};
  // Everybody to the one two further on, in one batch; to itself nothing travels.
  all["batch"] = {[c](Buffers& r, Communicator& g) {
                    const P2pOp ops[] = {
                        {P2pOp::Kind::send, r.make(c.count), (g.rank() + 2) % c.size},
                        {P2pOp::Kind::recv, r.make(c.count), (g.rank() + 2 * c.size - 2) % c.size}};
                    return g.batch(ops, {}, {});
                  },
                  [c](Expected& e) {
                    for (int from = 0; from < c.size; ++from) {
                      const int to = (from + 2) % c.size;
                      if (from != to) e.message(from, to, c.count * kWidth);
                    }
                  }};
}

Operations operations_of(const Case& c) {
  Operations all;
  add_rings(c, all);
  add_chains(c, all);
  add_stars(c, all);
  add_messages(c, all);
  return all;
}

const FiberGroup& group_named(const FiberWorld& world, const std::string& name) {
  for (const FiberGroup& group : world.groups()) {
    if (group.name() == name) return group;
  }
  throw std::logic_error("no group " + name);
}

// Each member sent and received what its links did, and nothing else.
void check_members(const FiberGroup& group, const LinkTable& links) {
  for (int member = 0; member < group.size(); ++member) {
    LinkCounts sum;
    for (const auto& [ends, counts] : links) {
      if (ends.second == member) sum.received += counts.received;
      if (ends.first != member) continue;
      sum.sent += counts.sent;
      sum.messages += counts.messages;
    }
    const TrafficCounters& counters = group.counters(member);
    RC_ASSERT(counters.payload_sent == sum.sent);
    RC_ASSERT(counters.payload_received == sum.received);
    RC_ASSERT(counters.messages == sum.messages);
  }
}

void check_links(const FiberGroup& group, const LinkTable& expected) {
  const LinkTable links = group.links();
  RC_ASSERT(links.size() == expected.size());
  for (const auto& [ends, counts] : expected) {
    RC_ASSERT(links.count(ends) == 1U);
    const LinkCounts& link = links.at(ends);
    RC_ASSERT(link.sent == counts.sent);
    RC_ASSERT(link.received == counts.received);
    RC_ASSERT(link.messages == counts.messages);
  }
  check_members(group, expected);
}

}  // namespace

TEST_CASE("P3: bytes and messages per rank and per link are those of the algorithm, uneven too") {
  rc::prop("for every operation, size, count, root and split", [] {
    const Case made = random_case();
    const auto operations = operations_of(made);
    const bool buffered = *rc::gen::arbitrary<bool>();
    FiberWorld world({.cluster = test_cluster(made.size),
                      .has_data = false,
                      .all_reduce_algorithm = Algorithm::ring,
                      .buffered_sends = buffered});
    world.run([&](Runtime& runtime, Communicator& everyone) {
      for (const auto& [name, operation] : operations) {
        const auto group = everyone.split(0, everyone.rank(), name);
        Buffers buffers(runtime);
        operation.post(buffers, *group).wait();
      }
    });
    for (const auto& [name, operation] : operations) {
      Expected expected;
      operation.expect(expected);
      check_links(group_named(world, name), expected.links());
    }
  });
}

TEST_CASE("P3: each link of a double tree carries its half once, in both directions") {
  // Three nodes of two: chains 0 - 1, 2 - 3, 4 - 5; over the nodes' first members the trees
  // 0 - 4 - 2 and, mirrored, 4 - 0 - 2. 7 elements of two bytes: halves of 8 and 6 bytes.
  FiberWorld world(
      {.cluster = test_cluster(6, 2), .has_data = false, .all_reduce_algorithm = Algorithm::tree});
  world.run([](Runtime& runtime, Communicator& everyone) {
    Buffers buffers(runtime);
    everyone.all_reduce(buffers.make(7), ReduceOp::sum).wait();
    everyone.all_reduce(buffers.make(9), ReduceOp::sum, {.traffic = TrafficClass::scalar}).wait();
  });
  Expected expected;
  const auto both = [&](int a, int b, Bytes bytes) {
    expected.message(a, b, bytes);
    expected.message(b, a, bytes);
  };
  for (const Bytes half : {8, 6}) {
    both(0, 1, half);
    both(2, 3, half);
    both(4, 5, half);
  }
  both(0, 4, 8);
  both(4, 2, 8);
  both(4, 0, 6);
  both(0, 2, 6);
  const LinkTable links = world.groups().front().links();
  REQUIRE(links.size() == expected.links().size());
  for (const auto& [ends, counts] : expected.links()) {
    INFO(ends.first << " to " << ends.second);
    CHECK(links.at(ends).sent == counts.sent);
    CHECK(links.at(ends).received == counts.received);
    CHECK(links.at(ends).messages == counts.messages);
  }
  // Each of them once more as scalars, which are in no link.
  const TrafficCounters& counters = world.groups().front().counters(1);
  CHECK(counters.messages == 4);
  CHECK(counters.scalar_messages == 2);
}

TEST_CASE("P3: traffic of a subgroup touches its members only, and groups of one name are apart") {
  // Pairs {0, 1} and {2, 3} of one name; the second moves twice as much, rank 4 and 5 nothing.
  FiberWorld world({.cluster = test_cluster(6), .has_data = false});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const auto pair = everyone.split(everyone.rank() / 2, everyone.rank(), "pair");
    const int color = everyone.rank() / 2;
    Buffers buffers(runtime);
    const Tensor data = buffers.make(10);
    for (int i = 0; i < color + 1 && color < 2; ++i) pair->all_reduce(data, ReduceOp::sum).wait();
  });
  std::map<std::pair<int, int>, LinkCounts> edges;  // World ranks.
  world.for_each_link([&](const LinkTraffic& edge) {
    CHECK(edge.group == "pair");
    CHECK(edges.emplace(std::pair(edge.from_rank, edge.to_rank), edge.counts).second);
  });
  REQUIRE(edges.size() == 4);
  for (const auto& [ends, counts] : edges) {
    CHECK(ends.first / 2 == ends.second / 2);
    const int times = ends.first / 2 + 1;
    CHECK(counts.sent == times * 20);
    CHECK(counts.received == times * 20);
    CHECK(counts.messages == times * 2);
  }
  CHECK(world.sent_by_rank() == std::vector<std::int64_t>{20, 20, 40, 40, 0, 0});
  CHECK(world.traffic().at("pair").payload_sent == 2 * 20 + 2 * 40);
}

}  // namespace shardsim
