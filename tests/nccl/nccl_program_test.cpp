#include "backends/nccl/nccl_program.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace shardsim {
namespace {

Tensor make(std::int64_t count, DType dtype = DType::fp32) {
  return Tensor::allocate(nullptr, MemoryCategory::comm, {count}, dtype, false);
}

// "send 8+2>1": from byte 8, two elements, to member 1.
std::vector<std::string> text_of(const NcclProgram& program) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                    "reduce",     "send",           "receive"};
  std::vector<std::string> lines;
  for (const NcclCall& call : program.calls) {
    lines.push_back(std::string(kNames[static_cast<std::size_t>(call.kind)]) + " " +
                    std::to_string(call.from) + ">" + std::to_string(call.to) + " x" +
                    std::to_string(call.count) + " peer " + std::to_string(call.peer));
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("NCCL: equal chunks are reduced and gathered in place, in one call") {
  const std::vector<std::int64_t> offsets = {0, 2, 4, 6};
  const Tensor full = make(6);
  const Tensor own = make(2);
  const NcclProgram scatter = reduce_scatter_program({1, 3, offsets}, own, full);
  CHECK(text_of(scatter) == Lines{"reduce_scatter 0>8 x2 peer -1"});
  CHECK(scatter.device_bytes == 24);
  REQUIRE(scatter.copied_out.size() == 1);
  CHECK(scatter.copied_out[0].device == 8);
  CHECK(scatter.copied_out[0].host == own.data());
  const NcclProgram gather = all_gather_program({1, 3, offsets}, full, own);
  CHECK(text_of(gather) == Lines{"all_gather 8>0 x2 peer -1"});
  CHECK(gather.copied_in[0].device == 8);
  CHECK(gather.copied_out[0].bytes == 24);
}

TEST_CASE("NCCL: unequal chunks are one rooted call each, and none for an empty one") {
  const std::vector<std::int64_t> offsets = {0, 3, 3, 4};
  const NcclProgram program = all_gather_program({0, 3, offsets}, make(4), make(3));
  CHECK(text_of(program) == Lines{"broadcast 0>0 x3 peer 0", "broadcast 12>12 x1 peer 2"});
}

TEST_CASE("NCCL: all_to_all sends nothing to itself and no empty message") {
  const Tensor input = make(4);
  const NcclProgram program = all_to_all_program(
      1, make(5), input, std::vector<std::int64_t>{1, 2, 1}, std::vector<std::int64_t>{3, 2, 0});
  CHECK(text_of(program) ==
        Lines{"send 0>0 x1 peer 0", "receive 0>256 x3 peer 0", "send 12>0 x1 peer 2"});
  REQUIRE(program.copied_in.size() == 3);
  CHECK(program.copied_in[1].device == 256 + 12);  // Its own, straight to the output.
  CHECK(program.copied_in[1].host == input.data() + 4);
}

TEST_CASE("NCCL: only what is read is copied in, only what is written is copied out") {
  const Tensor buffer = make(2);
  CHECK(broadcast_program(0, buffer, 0).copied_out.empty());
  CHECK(broadcast_program(1, buffer, 0).copied_in.empty());
  CHECK(reduce_program(1, buffer, 0).copied_out.empty());
  CHECK(barrier_program(buffer).copied_out.empty());
  const std::vector<std::int64_t> offsets = {0, 2, 4};
  const NcclProgram leaf = gather_program({1, 2, offsets}, {}, buffer, 0);
  CHECK(text_of(leaf) == Lines{"send 0>0 x2 peer 0"});
  CHECK(leaf.copied_out.empty());
  const NcclProgram root = scatter_program({0, 2, offsets}, make(4), buffer, 0);
  CHECK(text_of(root) == Lines{"send 8>0 x2 peer 1"});
  CHECK(root.copied_out[0].host == buffer.data());
}

TEST_CASE("NCCL: parts of a batch stand apart on the device") {
  const Tensor a = make(65, DType::fp64);
  const Tensor b = make(1, DType::bf16);
  const std::vector<P2pOp> halves = {{P2pOp::Kind::send, a, 2}, {P2pOp::Kind::recv, b, 1}};
  const NcclProgram program = point_to_point_program(halves);
  CHECK(text_of(program) == Lines{"send 0>0 x65 peer 2", "receive 768>768 x1 peer 1"});
  CHECK(program.calls[1].dtype == DType::bf16);
  CHECK(program.device_bytes == 1024);
}

}  // namespace shardsim
