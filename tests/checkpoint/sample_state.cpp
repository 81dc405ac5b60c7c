#include "tests/checkpoint/sample_state.hpp"

#include "sim/kernel/random.hpp"

namespace shardsim::test {

GlobalTensor make_tensor(const std::string& name, DType dtype,
                         const std::vector<std::int64_t>& shape, std::uint64_t version) {
  GlobalTensor tensor{.info = {.name = name, .dtype = dtype, .shape = shape}, .bytes = {}};
  tensor.bytes.resize(static_cast<std::size_t>(checked_numel(shape).value() * size_of(dtype)));
  const RandomStream random(version, name);
  std::uint64_t draw = 0;
  for (std::byte& byte : tensor.bytes) byte = std::byte(random.below(draw++, 256));
  return tensor;
}

OwnChunk cut(const GlobalTensor& tensor, const ElementRuns& elements) {
  OwnChunk chunk{.info = tensor.info, .elements = elements, .bytes = {}, .main = true};
  const std::int64_t size = size_of(tensor.info.dtype);
  for (const ElementRun& run : elements) {
    for (std::int64_t i = 0; i < run.repeats * run.count; ++i) {
      const std::int64_t element = run.piece(i / run.count) + i % run.count;
      const auto* first = tensor.bytes.data() + element * size;
      chunk.bytes.insert(chunk.bytes.end(), first, first + size);
    }
  }
  return chunk;
}

SaveStatus save(FileSystem& files, const CheckpointPlace& place, const RankChunks& ranks,
                const Scalars& scalars) {
  std::int64_t worst = 0;
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::vector<Chunk> chunks;
    for (const OwnChunk& chunk : ranks[r]) {
      chunks.push_back({.tensor = chunk.info,
                        .elements = chunk.elements,
                        .bytes = chunk.bytes,
                        .main = chunk.main});
    }
    const RankWrite written = write_rank_file(files, place, static_cast<int>(r), chunks, scalars);
    worst = std::max(worst, written.status.number());
    texts.push_back(to_text(written.report));
  }
  if (worst != 0) {
    discard(files, place);
    return SaveStatus::from_number(worst);
  }
  std::vector<RankReport> reports;
  for (const std::string& text : texts) reports.push_back(parse_report(text));
  SaveStatus status = commit(files, place, reports);
  if (!status.ok()) discard(files, place);
  return status;
}

std::vector<std::byte> load(CheckpointReader& reader, const TensorInfo& info,
                            const ElementRuns& elements) {
  const std::int64_t size = num_elements(elements) * size_of(info.dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size), std::byte{0xA5});
  const ChunkRequest request{.tensor = info, .elements = elements, .bytes = bytes};
  reader.load({&request, 1});
  return bytes;
}

SampleState make_sample(std::int64_t step) {
  const auto version = static_cast<std::uint64_t>(step);
  SampleState state;
  state.tensors = {make_tensor("parameter/w", DType::fp32, {2, 3}, version),
                   make_tensor("exp_avg/w", DType::fp64, {2, 3}, version),
                   make_tensor("parameter/b", DType::bf16, {3}, version),
                   make_tensor("count", DType::int64, {}, version)};
  state.scalars = {{"step", step}, {"loss_scale", 65536.0 / static_cast<double>(step)}};
  const auto& [w, m, b, count] =
      std::tie(state.tensors[0], state.tensors[1], state.tensors[2], state.tensors[3]);
  state.ranks = {{cut(w, {{0, 2, 3, 2}}), cut(m, flat_run(0, 4)), cut(count, flat_run(0, 1))},
                 {cut(w, {{2, 1, 3, 2}}), cut(m, flat_run(4, 2)), cut(b, flat_run(0, 3))},
                 {}};
  state.ranks[2].push_back(cut(b, flat_run(0, 3)));  // A replica.
  state.ranks[2][0].main = false;
  return state;
}

bool holds(CheckpointReader& reader, const SampleState& state) {
  for (const GlobalTensor& tensor : state.tensors) {
    const std::int64_t numel = checked_numel(tensor.info.shape).value();
    if (load(reader, tensor.info, flat_run(0, numel)) != tensor.bytes) return false;
  }
  return reader.scalars() == state.scalars && reader.tensors().size() == state.tensors.size();
}

}  // namespace shardsim::test
