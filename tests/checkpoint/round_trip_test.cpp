#include <bit>
#include <limits>

#include "tests/checkpoint/draw.hpp"
#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/checkpoint/sample_state.hpp"
#include "tests/property/check_property.hpp"

namespace shardsim::test {
namespace {

const CheckpointPlace kStep12{.directory = "/run", .step = 12};

TEST_CASE("what three ranks save, any reader gets back") {
  MemoryFileSystem files;
  const SampleState state = make_sample(12);
  REQUIRE(save(files, kStep12, state.ranks, state.scalars).ok());
  CheckpointReader reader(files, kStep12);
  CHECK(reader.step() == 12);
  CHECK(holds(reader, state));
  CHECK(scalar<double>(reader, "loss_scale") == 65536.0 / 12);
  CHECK(scalar<std::int64_t>(reader, "step") == 12);
  CHECK_NOTHROW(reader.verify());
  const LatestCheckpoint latest = find_latest(files, "/run");
  CHECK(latest.reader.step() == 12);
  CHECK(latest.skipped.empty());
}

TEST_CASE("every dtype comes back bit by bit") {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16, DType::fp8_e4m3,
                            DType::int8, DType::int32, DType::int64}) {
    INFO(name_of(dtype));
    MemoryFileSystem files;
    const GlobalTensor tensor = make_tensor("t", dtype, {5, 7});
    const RankChunks ranks = {{cut(tensor, flat_run(0, 13))}, {cut(tensor, flat_run(13, 22))}};
    REQUIRE(save(files, kStep12, ranks, {}).ok());
    CheckpointReader reader(files, kStep12);
    CHECK(reader.tensors() == std::vector{tensor.info});
    CHECK(load(reader, tensor.info, flat_run(0, 35)) == tensor.bytes);
  }
}

TEST_CASE("every type of scalar comes back bit by bit") {
  const Scalars scalars = {{"bool", true},
                           {"int64", std::numeric_limits<std::int64_t>::min()},
                           {"uint64", std::numeric_limits<std::uint64_t>::max()},
                           {"small_uint64", std::uint64_t{3}},
                           {"infinity", -std::numeric_limits<double>::infinity()},
                           {"minus_zero", -0.0},
                           {"third", 1.0 / 3},
                           {"text", std::string("a \"quoted\" \\ word")}};
  MemoryFileSystem files;
  REQUIRE(save(files, kStep12, {{}, {}}, scalars).ok());
  const CheckpointReader reader(files, kStep12);
  CHECK(reader.scalars() == scalars);
  CHECK(std::bit_cast<std::uint64_t>(scalar<double>(reader, "minus_zero")) == std::uint64_t{1}
                                                                                  << 63U);
  CHECK_THROWS_AS(scalar<double>(reader, "int64"), CheckpointError);
  CHECK_THROWS_AS(scalar<bool>(reader, "absent"), CheckpointError);
}

TEST_CASE("a NaN keeps its bits") {
  const double odd_nan = std::bit_cast<double>(std::uint64_t{0x7FF8000000001234});
  MemoryFileSystem files;
  REQUIRE(save(files, kStep12, {{}, {}}, {{"x", odd_nan}}).ok());
  const CheckpointReader reader(files, kStep12);
  CHECK(std::bit_cast<std::uint64_t>(scalar<double>(reader, "x")) == 0x7FF8000000001234U);
}

// Cuts a tensor in pieces for some ranks, each element on one of them.
void deal(const GlobalTensor& tensor, RankChunks& ranks) {
  const auto& shape = tensor.info.shape;
  const std::int64_t numel = checked_numel(shape).value();
  const auto rank = [&] { return static_cast<std::size_t>(draw<std::size_t>(0, ranks.size())); };
  const int how = draw(0, 3);
  if (how == 0) {  // Flat shards, as ZeRO makes them.
    for (std::int64_t first = 0; first < numel;) {
      const auto count = draw<std::int64_t>(1, numel - first + 1);
      ranks[rank()].push_back(cut(tensor, flat_run(first, count)));
      first += count;
    }
  } else if (how == 1) {  // A grid of boxes, as tensor parallelism makes them.
    ElementRuns done;
    std::vector<std::int64_t> parts(shape.size());
    std::int64_t cells = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      parts[d] = draw<std::int64_t>(1, shape[d] + 2);
      cells *= parts[d];
    }
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      std::vector<std::int64_t> offset(shape.size());
      std::vector<std::int64_t> extent(shape.size());
      std::int64_t rest = cell;
      for (std::size_t d = 0; d < shape.size(); rest /= parts[d], ++d) {
        const std::int64_t at = rest % parts[d];
        offset[d] = shape[d] * at / parts[d];
        extent[d] = shape[d] * (at + 1) / parts[d] - offset[d];
      }
      ranks[rank()].push_back(cut(tensor, runs_of_box(shape, offset, extent)));
    }
  } else {  // Each element for itself, in any order.
    for (std::int64_t element = numel; element-- > 0;) {
      auto& chunks = ranks[rank()];
      const bool grows = !chunks.empty() && chunks.back().info == tensor.info;
      ElementRuns runs = grows ? chunks.back().elements : ElementRuns{};
      runs.push_back({.first = element, .count = 1, .stride = 0, .repeats = 1});
      if (grows) chunks.pop_back();
      chunks.push_back(cut(tensor, runs));
    }
  }
  if (numel == 0) ranks[rank()].push_back(cut(tensor, {}));
}

TEST_CASE("what is saved at any layout is loaded at any other, bit by bit") {
  std::size_t bytes = 0;
  check_property(300, [&] {
    std::vector<GlobalTensor> tensors;
    const int count = draw(1, 4);
    for (int t = 0; t < count; ++t) {
      const auto dtype = *rc::gen::element(DType::fp64, DType::fp32, DType::bf16, DType::int8);
      std::vector<std::int64_t> shape(draw<std::size_t>(0, 5));
      for (std::int64_t& dim : shape) {
        dim = draw<std::int64_t>(draw(0, 20) == 19 ? 0 : 1, 6);
      }
      tensors.push_back(make_tensor("t" + std::to_string(t), dtype, shape));
    }
    RankChunks saved(draw<std::size_t>(1, 6));
    RankChunks asked(draw<std::size_t>(1, 6));
    for (const GlobalTensor& tensor : tensors) {
      deal(tensor, saved);
      deal(tensor, asked);
    }
    MemoryFileSystem files;
    RC_ASSERT(save(files, kStep12, saved, {}).ok());
    for (std::vector<OwnChunk>& chunks : asked) {
      CheckpointReader reader(files, kStep12);
      std::vector<std::vector<std::byte>> got;
      std::vector<ChunkRequest> requests;
      for (const OwnChunk& chunk : chunks) {
        got.emplace_back(chunk.bytes.size(), std::byte{0x5A});
      }
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        requests.push_back(
            {.tensor = chunks[i].info, .elements = chunks[i].elements, .bytes = got[i]});
      }
      reader.load(requests);
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        RC_ASSERT(got[i] == chunks[i].bytes);
        bytes += got[i].size();
      }
    }
  });
  CHECK(bytes > 30'000);
}

TEST_CASE("a tensor of megabytes comes back in pieces of any size") {
  MemoryFileSystem files;
  files.longest_write = 65'537;
  const GlobalTensor tensor = make_tensor("t", DType::bf16, {1200, 1000});
  const std::vector<std::int64_t> zero = {0, 0};
  const ElementRuns left =
      runs_of_box(tensor.info.shape, zero, std::vector<std::int64_t>{1200, 601});
  const ElementRuns right = runs_of_box(tensor.info.shape, std::vector<std::int64_t>{0, 601},
                                        std::vector<std::int64_t>{1200, 399});
  REQUIRE(save(files, kStep12, {{cut(tensor, left)}, {cut(tensor, right)}}, {}).ok());
  CheckpointReader reader(files, kStep12);
  const ElementRuns backwards = {flat_run(1'000'003, 199'997)[0], flat_run(3, 1'000'000)[0]};
  CHECK(load(reader, tensor.info, flat_run(0, 1'200'000)) == tensor.bytes);
  CHECK(load(reader, tensor.info, backwards) == cut(tensor, backwards).bytes);
}

TEST_CASE("only the files that hold something of a request are read") {
  MemoryFileSystem files;
  const GlobalTensor tensor = make_tensor("t", DType::fp32, {8});
  REQUIRE(save(files, kStep12, {{cut(tensor, flat_run(0, 4))}, {cut(tensor, flat_run(4, 4))}}, {})
              .ok());
  CheckpointReader reader(files, kStep12);
  for (const std::string& path : files.all_files()) {
    if (path.find("rank-0001") == std::string::npos) continue;
    std::string text = files.read_file(path);
    text.back() ^= 1;
    files.write_file(path, text);
  }
  CHECK(load(reader, tensor.info, flat_run(0, 4)) == cut(tensor, flat_run(0, 4)).bytes);
  CHECK_THROWS_AS(load(reader, tensor.info, flat_run(3, 2)), CheckpointError);
}

}  // namespace
}  // namespace shardsim::test
