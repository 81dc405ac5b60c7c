#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/message_fixture.hpp"
#include "tests/nccl/nccl_fixture.hpp"

// NCCL's own calls are not seen message by message: what is counted for them has to be what the
// same calls count where every message is.
namespace shardsim {
namespace {

void all_kinds(Runtime& runtime, Communicator& world) {
  const auto part = world.split(world.rank() % 2, 0, "part");
  const auto make = [&](std::int64_t count) {
    return runtime.allocate(MemoryCategory::comm, {count}, DType::bf16);
  };
  const int size = world.size();
  std::vector<std::int64_t> uneven;
  for (int i = 0; i < size; ++i) uneven.push_back(i + 1);
  const std::int64_t sum = std::int64_t{size} * (size + 1) / 2;
  const std::vector<ElementRange> gaps = {{1, 2}, {9, 12}};
  world.all_reduce(make(17), ReduceOp::sum).wait();
  world.all_reduce(make(1), ReduceOp::max, {.traffic = TrafficClass::scalar}).wait();
  part->all_reduce(make(17), ReduceOp::avg, {.padding = 4, .padding_at = gaps}).wait();
  world.reduce_scatter(make(5), make(5 * size), ReduceOp::sum, {.padding = 3}).wait();
  world.reduce_scatter(make(world.rank() + 1), make(sum), ReduceOp::sum, {.counts = uneven}).wait();
  world.all_gather(make(5 * size), make(5)).wait();
  world.all_gather(make(sum), make(world.rank() + 1), {.counts = uneven}).wait();
  world.broadcast(make(9), 1).wait();
  world.reduce(make(9), ReduceOp::min, size - 1).wait();
  world.gather(make(5 * size), make(5), 1).wait();
  world.scatter(make(world.rank() + 1), make(sum), 0, {.counts = uneven}).wait();
  world.all_to_all(make(2 * size), make(2 * size), {}, {}).wait();
  std::vector<std::int64_t> send;
  std::vector<std::int64_t> receive;
  std::int64_t out = 0;
  std::int64_t in = 0;
  for (int peer = 0; peer < size; ++peer) {
    send.push_back((world.rank() + 2 * peer) % 3);
    receive.push_back((peer + 2 * world.rank()) % 3);
    out += send.back();
    in += receive.back();
  }
  world.all_to_all(make(in), make(out), send, receive).wait();
  world.barrier().wait();
  const Tensor a = make(7);
  const Tensor b = make(7);
  const std::vector<P2pOp> ring = {{P2pOp::Kind::send, a, (world.rank() + 1) % size},
                                   {P2pOp::Kind::recv, b, (world.rank() + size - 1) % size}};
  world.batch(ring).wait();
  const std::vector<P2pOp> to_itself = {{P2pOp::Kind::send, a, world.rank()},
                                        {P2pOp::Kind::recv, b, world.rank()}};
  world.batch(to_itself).wait();
}

std::vector<std::int64_t> fields(const TrafficCounters& c) {
  return {c.payload_sent, c.payload_received, c.padding_sent, c.scalar_sent, c.scalar_received,
          c.messages,     c.scalar_messages,  c.calls,        c.scalar_calls};
}

std::vector<std::int64_t> fields(const LinkTable& links) {
  std::vector<std::int64_t> all;
  for (const auto& [ends, counts] : links) {
    all.insert(all.end(), {ends.first, ends.second, counts.sent, counts.received, counts.messages});
  }
  return all;
}

using Table = std::map<std::pair<int, std::string>, std::vector<std::vector<std::int64_t>>>;

void enter(Table& table, const ProcessBackend& backend) {
  for (const GroupTraffic& group : backend.traffic()) {
    std::vector<std::int64_t> members(group.members.begin(), group.members.end());
    table[{backend.rank(), group.name}] = {members, fields(group.counters), fields(group.links)};
  }
}

}  // namespace

TEST_CASE("NCCL: bytes, messages and calls per member and link are those of the ring's messages") {
  for (const int size : {2, 3, 4, 7}) {
    Table messages;
    Table nccl;
    run_message_ranks(size, all_kinds,
                      {.all_reduce_algorithm = Algorithm::ring,
                       .inspect = [&](const MessageRank& rank) { enter(messages, rank); }});
    run_nccl_ranks(size, all_kinds,
                   {.inspect = [&](const NcclBackend& rank) { enter(nccl, rank); }});
    INFO(size << " ranks");
    CHECK(nccl.size() == static_cast<std::size_t>(2 * size));
    CHECK(nccl == messages);
  }
}

}  // namespace shardsim
