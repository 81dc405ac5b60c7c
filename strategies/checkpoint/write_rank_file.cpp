#include "strategies/checkpoint/attempt.hpp"
#include "strategies/checkpoint/checksum.hpp"
#include "strategies/checkpoint/names.hpp"
#include "strategies/checkpoint/payload.hpp"
#include "strategies/checkpoint/save.hpp"

namespace shardsim {

namespace {

void check_common(const CheckpointPlace& place, int rank, const Scalars& scalars) {
  constexpr int kMaxRank = (1 << 24) - 1;  // Limit of SaveStatus::number and manifests.
  if (place.directory.empty() || place.step < 0 || rank < 0 || rank > kMaxRank) {
    throw CheckpointError(CheckpointProblem::bad_chunk,
                          "a save needs a directory, a step and a rank of 0 or more, not \"" +
                              place.directory + "\", " + std::to_string(place.step) + " and " +
                              std::to_string(rank));
  }
  for (const auto& [name, value] : scalars) {
    if (auto problem = problem_of_scalar(name, value)) {
      throw CheckpointError(CheckpointProblem::bad_chunk, *problem);
    }
  }
}

// Returns the checksum of what was written and synced.
std::uint64_t write_temporary(FileSystem& files, const std::string& path,
                              const PayloadLayout& layout, std::span<const Chunk> chunks) {
  Checksum checksum;
  const std::unique_ptr<OutputFile> file = files.create(path);
  const auto put = [&](std::span<const std::byte> bytes) {
    checksum.add(bytes);
    write_all(*file, path, bytes);
  };
  put(std::as_bytes(std::span(layout.header)));
  for (const int chunk : layout.order) put(chunks[static_cast<std::size_t>(chunk)].bytes);
  file->sync();
  file->close();
  return checksum.value();
}

}  // namespace

RankWrite write_rank_file(FileSystem& files, const CheckpointPlace& place, int rank,
                          std::span<const Chunk> chunks, const Scalars& scalars) {
  RankWrite result;
  const std::string folder = step_folder(place);
  result.status = attempt(rank, [&] {
    check_common(place, rank, scalars);
    PayloadLayout layout = lay_out_payload(chunks, place.step, rank);
    files.make_folder(place.directory);
    files.make_folder(folder);
    const std::string temporary = folder + "/" + rank_temporary(rank);
    const std::uint64_t checksum = write_temporary(files, temporary, layout, chunks);
    files.rename(temporary, folder + "/" + rank_file_name(rank, checksum));
    files.sync_folder(folder);
    result.report = {.step = place.step,
                     .scalars = scalars,
                     .tensors = std::move(layout.tensors),
                     .file = {.rank = rank,
                              .bytes = layout.bytes,
                              .checksum = checksum,
                              .chunks = std::move(layout.stored)}};
  });
  return result;
}

}  // namespace shardsim
