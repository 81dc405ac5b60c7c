#include <cstring>
#include <string>
#include <utility>

#include "strategies/checkpoint/checkpoint_error.hpp"
#include "strategies/checkpoint/load.hpp"
#include "strategies/checkpoint/names.hpp"
#include "strategies/sharded_optimizer/agreement.hpp"
#include "strategies/sharded_optimizer/sharded_optimizer.hpp"

// Checkpoints of all ranks: the communication between the parts that strategies/checkpoint has.
namespace shardsim {

namespace {

constexpr CallOptions kReport{.label = "checkpoint report", .traffic = TrafficClass::scalar};

// The texts of all ranks, on rank 0; elsewhere nothing.
std::vector<std::string> gather_texts(Runtime& runtime, Communicator& world,
                                      const std::string& text) {
  const auto allocate = [&](std::int64_t count, DType dtype) {
    return runtime.allocate(MemoryCategory::comm, {count}, dtype);
  };
  const Tensor length = allocate(1, DType::int64);
  const Tensor lengths = allocate(world.size(), DType::int64);
  runtime.write_scalar(length, static_cast<double>(text.size()));
  world.all_gather(lengths, length, kReport).wait();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(world.size()));
  std::int64_t total = 0;
  runtime.off_the_clock([&] {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      counts[i] = static_cast<std::int64_t>(lengths.get(static_cast<std::int64_t>(i)));
      total += counts[i];
    }
  });
  const Tensor own = allocate(static_cast<std::int64_t>(text.size()), DType::int8);
  runtime.off_the_clock([&] { std::memcpy(own.data(), text.data(), text.size()); });
  const bool is_root = world.rank() == 0;
  const Tensor all = is_root ? allocate(total, DType::int8) : Tensor();
  CallOptions options = kReport;
  options.counts = counts;
  world.gather(all, own, 0, options).wait();
  std::vector<std::string> texts;
  if (!is_root) return texts;
  runtime.off_the_clock([&] {
    std::int64_t at = 0;
    for (const std::int64_t count : counts) {
      const auto size = static_cast<std::size_t>(count);
      texts.emplace_back(size, ' ');
      std::memcpy(texts.back().data(), all.view(at, {count}).data(), size);
      at += count;
    }
  });
  return texts;
}

std::vector<Chunk> main_chunks(const SerializedState& state) {
  std::vector<Chunk> chunks;
  for (const SerializedState::Part& part : state.parts) {
    if (!part.main) continue;
    chunks.push_back({.tensor = part.tensor, .elements = part.elements, .bytes = part.bytes});
  }
  return chunks;
}

SaveStatus commit_texts(FileSystem& files, const CheckpointPlace& place,
                        const std::vector<std::string>& texts) {
  std::vector<RankReport> reports;
  for (const std::string& text : texts) reports.push_back(parse_report(text));
  return commit(files, place, reports);
}

}  // namespace

void ShardedOptimizer::save_model(FileSystem& files, const std::string& directory) {
  model_.require_one_model("save_model");
  Runtime& runtime = model_.runtime();
  Communicator& world = model_.world();
  // A plan saves nothing, whatever it replays: of the files nothing is known, not even their sizes.
  bool has_values = false;
  runtime.off_the_clock([&] { has_values = true; });
  if (!has_values) return;
  const CheckpointPlace place{.directory = directory, .step = model_.steps()};
  SaveStatus status;
  {
    const SerializedState state = serialize();
    const RankWrite written =
        write_rank_file(files, place, rank(), main_chunks(state), state.scalars);
    status = agree(runtime, world, written.status);
    if (status.ok()) {
      const std::vector<std::string> texts = gather_texts(runtime, world, to_text(written.report));
      if (rank() == 0) status = commit_texts(files, place, texts);
      status = agree(runtime, world, status);
    }
  }
  if (status.ok()) return;
  if (rank() == 0) discard(files, place);
  raise_if_failed(status, place);
}

void ShardedOptimizer::load_model(FileSystem& files, const CheckpointPlace& place,
                                  SavedOptions options) {
  model_.require_one_model("load_model");
  Runtime& runtime = model_.runtime();
  SerializedState state;
  SaveStatus status;
  runtime.off_the_clock([&] {
    status = attempt(rank(), [&] {
      CheckpointReader reader(files, place);
      // Each opens what it needs; a file that nobody needs must be there all the same.
      if (rank() == 0) reader.find_files();
      state.scalars = reader.scalars();
      std::vector<ChunkRequest> requests;
      for (const HeldChunk& chunk :
           held_chunks(model_.plan(), model_.place(), model_.gradient_sync())) {
        const std::int64_t size = num_elements(chunk.elements) * size_of(chunk.tensor.dtype);
        state.parts.push_back({.tensor = chunk.tensor,
                               .elements = chunk.elements,
                               .bytes = std::vector<std::byte>(static_cast<std::size_t>(size)),
                               .main = chunk.main});
      }
      for (SerializedState::Part& part : state.parts) {
        requests.push_back({.tensor = part.tensor, .elements = part.elements, .bytes = part.bytes});
      }
      reader.load(requests);
    });
  });
  raise_load_failure(agree(runtime, model_.world(), status), "\"" + step_folder(place) + "\"");
  deserialize(state, options);
}

}  // namespace shardsim
