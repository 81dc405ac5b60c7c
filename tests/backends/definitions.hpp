#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/hardware/collective.hpp"

#include "backends/communicator.hpp"
#include "backends/runtime.hpp"

#include "tests/backends/fiber_fixture.hpp"

// The sequential definitions of all collectives, for any communicator: every backend is held
// against them, bit by bit.
namespace shardsim::definitions {

inline constexpr DType kDTypes[] = {DType::fp64, DType::fp32,  DType::bf16, DType::fp16,
                                    DType::int8, DType::int32, DType::int64};
inline constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max,
                                    ReduceOp::product};

// Sums of up to eight stay exact in every dtype, int8 and bf16 included; so do products, as only
// six ranks have a factor of two.
inline double value_of(ReduceOp op, int rank, std::int64_t index) {
  const auto mixed = (rank * 5 + index * 3) % 11;
  if (op != ReduceOp::product) return static_cast<double>(mixed - 4);
  if (mixed == 0) return -1.0;
  return rank < 6 && mixed % 2 == 1 ? 2.0 : 1.0;
}

inline double reduced(ReduceOp op, DType dtype, int size, std::int64_t index) {
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

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.num_bytes() == b.num_bytes() &&
         (a.num_bytes() == 0 ||
          std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.num_bytes())) == 0);
}

// `count` elements cut for `size` members: the first chunks are one longer.
inline std::vector<std::int64_t> cut(std::int64_t count, int size) {
  std::vector<std::int64_t> chunks;
  for (int i = 0; i < size; ++i) chunks.push_back(chunk_size(count, size, i));
  return chunks;
}

inline std::int64_t offset_of(const std::vector<std::int64_t>& chunks, int member) {
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

}  // namespace shardsim::definitions
