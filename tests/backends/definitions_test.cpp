#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

#include "tests/backends/all_backends.hpp"

// P1 and P2: every collective is its sequential definition, bit by bit, and what is composed of
// others equals the composition.
namespace shardsim {
namespace {

constexpr DType kDTypes[] = {DType::fp64, DType::fp32,  DType::bf16, DType::fp16,
                             DType::int8, DType::int32, DType::int64};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max,
                             ReduceOp::product};
constexpr ReductionOrder kOrders[] = {ReductionOrder::rank, ReductionOrder::wire};

// Sums of up to eight stay exact in every dtype, int8 and bf16 included; so do products, as only
// six ranks have a factor of two.
double value_of(ReduceOp op, int rank, std::int64_t index) {
  const auto mixed = (rank * 5 + index * 3) % 11;
  if (op != ReduceOp::product) return static_cast<double>(mixed - 4);
  if (mixed == 0) return -1.0;
  return rank < 6 && mixed % 2 == 1 ? 2.0 : 1.0;
}

double reduced(ReduceOp op, DType dtype, int size, std::int64_t index) {
  double result = value_of(op, 0, index);
  for (int rank = 1; rank < size; ++rank) {
    const double value = value_of(op, rank, index);
    if (op == ReduceOp::sum || op == ReduceOp::avg) result += value;
    if (op == ReduceOp::min) result = std::min(result, value);
    if (op == ReduceOp::max) result = std::max(result, value);
    if (op == ReduceOp::product) result *= value;
  }
  if (op != ReduceOp::avg) return result;
  return is_floating(dtype) ? result / size : std::trunc(result / size);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.num_bytes() == b.num_bytes() &&
         (a.num_bytes() == 0 ||
          std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.num_bytes())) == 0);
}

// `count` elements cut for `size` members: the first chunks are one longer.
std::vector<std::int64_t> cut(std::int64_t count, int size) {
  std::vector<std::int64_t> chunks;
  for (int i = 0; i < size; ++i) chunks.push_back(chunk_size(count, size, i));
  return chunks;
}

std::int64_t offset_of(const std::vector<std::int64_t>& chunks, int member) {
  std::int64_t offset = 0;
  for (int i = 0; i < member; ++i) offset += chunks[static_cast<std::size_t>(i)];
  return offset;
}

// One rank's view of one setting: all calls, each compared with its definition.
class Definitions {
 public:
  Definitions(Runtime& runtime, Communicator& world, DType dtype, std::int64_t count)
      : runtime_(runtime),
        world_(world),
        dtype_(dtype),
        count_(count),
        chunks_(cut(count, size())) {
    if (count % size() != 0) options_.counts = chunks_;
  }

  void check_reductions(ReduceOp op) {
    const auto mine = [&](std::int64_t i) { return value_of(op, rank(), i); };
    const Tensor expected = make([&](std::int64_t i) { return reduced(op, dtype_, size(), i); });
    const Tensor all = make(mine);
    world_.all_reduce(all, op).wait();
    REQUIRE(same_bits(all, expected));
    const Tensor part = runtime_.allocate(MemoryCategory::comm, {own()}, dtype_);
    world_.reduce_scatter(part, make(mine), op, options_).wait();
    REQUIRE(same_bits(part, own_of(expected)));
    for (int root = 0; root < size(); ++root) {
      const Tensor at_root = make(mine);
      world_.reduce(at_root, op, root).wait();
      REQUIRE(same_bits(at_root, rank() == root ? expected : make(mine)));
    }
  }

  void check_moves() {
    // Element i of the whole, wherever it is.
    const Tensor whole = make([](std::int64_t i) { return static_cast<double>(i % 100); });
    const Tensor gathered = empty(count_);
    world_.all_gather(gathered, own_of(whole), options_).wait();
    REQUIRE(same_bits(gathered, whole));
    for (int root = 0; root < size(); ++root) {
      const bool is_root = rank() == root;
      const auto of_root = [&](std::int64_t i) { return value_of(ReduceOp::sum, root, i); };
      const Tensor sent = is_root ? make(of_root) : empty(count_);
      world_.broadcast(sent, root).wait();
      REQUIRE(same_bits(sent, make(of_root)));
      const Tensor at_root = is_root ? empty(count_) : Tensor();
      world_.gather(at_root, own_of(whole), root, options_).wait();
      if (is_root) REQUIRE(same_bits(at_root, whole));
      const Tensor part = empty(own());
      world_.scatter(part, is_root ? whole : Tensor(), root, options_).wait();
      REQUIRE(same_bits(part, own_of(whole)));
    }
  }

  // Member i sends (i + 2 j + count) % 3 elements to j, which tell where they come from and go to.
  void check_all_to_all() {
    const auto split = [&](int from, int to) { return (from + 2 * to + count_) % 3; };
    std::vector<std::int64_t> send;
    std::vector<std::int64_t> recv;
    std::vector<double> out;
    std::vector<double> in;
    for (int peer = 0; peer < size(); ++peer) {
      send.push_back(split(rank(), peer));
      recv.push_back(split(peer, rank()));
      out.insert(out.end(), static_cast<std::size_t>(send.back()), 10.0 * rank() + peer);
      in.insert(in.end(), static_cast<std::size_t>(recv.back()), 10.0 * peer + rank());
    }
    const Tensor received = empty(static_cast<std::int64_t>(in.size()));
    world_.all_to_all(received, of(out), send, recv).wait();
    REQUIRE(same_bits(received, of(in)));
  }

 private:
  [[nodiscard]] int rank() const { return world_.rank(); }
  [[nodiscard]] int size() const { return world_.size(); }
  [[nodiscard]] std::int64_t own() const { return chunks_[static_cast<std::size_t>(rank())]; }
  [[nodiscard]] Tensor own_of(const Tensor& whole) const {
    return whole.view(offset_of(chunks_, rank()), {own()});
  }
  [[nodiscard]] Tensor empty(std::int64_t count) {
    return runtime_.allocate(MemoryCategory::comm, {count}, dtype_);
  }
  [[nodiscard]] Tensor make(const std::function<double(std::int64_t)>& value) {
    return filled(runtime_, count_, dtype_, value);
  }
  [[nodiscard]] Tensor of(const std::vector<double>& values) {
    return filled(runtime_, static_cast<std::int64_t>(values.size()), dtype_,
                  [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
  }

  Runtime& runtime_;
  Communicator& world_;
  DType dtype_;
  std::int64_t count_;
  std::vector<std::int64_t> chunks_;
  CallOptions options_;
};

// Any bits that a dtype has, from large to small, no two ranks alike.
double random_value(const RandomStream& random, int rank, std::int64_t index) {
  const auto at = static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(index);
  return std::ldexp(2.0 * random.uniform(at) - 1.0, static_cast<int>(at * 7 % 9) - 4);
}

// The sum over `size` ranks, once in one call and once in two halves, compared on every rank.
double reduce_in_halves(int size, std::int64_t count, DType dtype, ReduceOp op,
                        ReductionOrder order) {
  const RandomStream random(11, "halves");
  double sum_of_all = 0.0;
  run_ranks(size,
            [&](Runtime& runtime, Communicator& world) {
              const auto mine = [&](std::int64_t i) {
                return random_value(random, world.rank(), i);
              };
              const Tensor once = filled(runtime, count, dtype, mine);
              world.all_reduce(once, op).wait();
              const std::vector<std::int64_t> chunks = cut(count, size);
              const Tensor halves = filled(runtime, count, dtype, mine);
              const Tensor part = halves.view(offset_of(chunks, world.rank()),
                                              {chunks[static_cast<std::size_t>(world.rank())]});
              world.reduce_scatter(part, halves, op, {.counts = chunks}).wait();
              world.all_gather(halves, part, {.counts = chunks}).wait();
              REQUIRE(same_bits(once, halves));
              for (std::int64_t i = 0; world.rank() == 0 && i < count; ++i)
                sum_of_all += once.get(i);
            },
            // A tree adds in an order of its own.
            {.reduction_order = order, .all_reduce_algorithm = Algorithm::ring});
  return sum_of_all;
}

}  // namespace

TEST_CASE("P1: every operation is its definition: all dtypes, reductions, roots and counts") {
  for (const ReductionOrder order : kOrders) {
    for (const int size : {1, 2, 3, 5, 8}) {
      for (const DType dtype : kDTypes) {
        for (const std::int64_t count : {0, 1, size - 1, 2 * size + 1, 3 * size}) {
          INFO(size << " ranks, " << name_of(dtype) << " x " << count);
          const auto body = [&](Runtime& runtime, Communicator& world) {
            Definitions definitions(runtime, world, dtype, count);
            for (const ReduceOp op : kOps) definitions.check_reductions(op);
            definitions.check_moves();
            definitions.check_all_to_all();
          };
          run_ranks(size, body, {.reduction_order = order});
          if (order == ReductionOrder::rank) continue;
          run_message_ranks(size, body);
          run_nccl_ranks(size, body);
        }
      }
    }
  }
}

TEST_CASE("P2: all_reduce is all_gather after reduce_scatter to the bit, in either order of sums") {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const int size : {1, 2, 3, 7, 8}) {
      for (const std::int64_t count : {1, 5, 29, 64}) {
        for (const ReduceOp op : kOps) {
          for (const ReductionOrder order : kOrders) {
            reduce_in_halves(size, count, dtype, op, order);
          }
        }
      }
    }
    // Values whose sum depends on the order: exact ones would prove nothing.
    CHECK(reduce_in_halves(7, 64, dtype, ReduceOp::sum, ReductionOrder::rank) !=
          reduce_in_halves(7, 64, dtype, ReduceOp::sum, ReductionOrder::wire));
  }
}

TEST_CASE("P2: all_to_all twice, scatter after gather and gather after scatter change no bit") {
  const RandomStream random(12, "moves");
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const int size : {1, 2, 5, 8}) {
      run_on_all(size, [&](Runtime& runtime, Communicator& world) {
        const auto make = [&](std::int64_t count) {
          return filled(runtime, count, dtype,
                        [&](std::int64_t i) { return random_value(random, world.rank(), i); });
        };
        const auto empty = [&](std::int64_t count) {
          return runtime.allocate(MemoryCategory::comm, {count}, dtype);
        };
        const Tensor there = empty(3 * size);
        const Tensor back = empty(3 * size);
        world.all_to_all(there, make(3 * size), {}, {}).wait();
        REQUIRE((size == 1 || !same_bits(there, make(3 * size))));
        world.all_to_all(back, there, {}, {}).wait();
        REQUIRE(same_bits(back, make(3 * size)));

        const std::vector<std::int64_t> chunks = cut(2 * size + 1, size);
        const CallOptions uneven{.counts = chunks};
        const std::int64_t own = chunks[static_cast<std::size_t>(world.rank())];
        for (int root = 0; root < size; ++root) {
          const Tensor whole = empty(2 * size + 1);
          const Tensor part = empty(own);
          world.gather(whole, make(own), root, uneven).wait();
          world.scatter(part, whole, root, uneven).wait();
          REQUIRE(same_bits(part, make(own)));
          world.scatter(part, make(2 * size + 1), root, uneven).wait();
          world.gather(whole, part, root, uneven).wait();
          if (world.rank() == root) REQUIRE(same_bits(whole, make(2 * size + 1)));
        }
      });
    }
  }
}

}  // namespace shardsim
