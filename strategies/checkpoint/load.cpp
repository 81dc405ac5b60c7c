#include "strategies/checkpoint/load.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "strategies/checkpoint/names.hpp"
#include "strategies/checkpoint/payload.hpp"

namespace shardsim {

namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw CheckpointError(CheckpointProblem::damaged, "\"" + path + "\": " + why);
}

[[noreturn]] void raise(const FileError& error, CheckpointProblem if_missing) {
  CheckpointProblem problem = problem_of_errno(error.error_number());
  if (problem == CheckpointProblem::not_found) problem = if_missing;
  throw CheckpointError(problem, error.what());
}

// Reads stretches of a file that mostly rise, a block at a time.
class BlockReader {
 public:
  BlockReader(InputFile& file, const std::string& path) : file_(file), path_(path) {}

  void read(std::int64_t offset, std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      if (offset < begin_ || offset >= begin_ + static_cast<std::int64_t>(block_.size())) {
        fetch(offset);
      }
      const auto at = static_cast<std::size_t>(offset - begin_);
      const std::size_t count = std::min(bytes.size(), block_.size() - at);
      std::memcpy(bytes.data(), block_.data() + at, count);
      bytes = bytes.subspan(count);
      offset += static_cast<std::int64_t>(count);
    }
  }

 private:
  void fetch(std::int64_t offset) {
    const std::int64_t count = std::min(kBlockBytes, file_.size() - offset);
    block_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    begin_ = offset;
    if (block_.empty() || !read_all(file_, offset, block_)) damaged(path_, "the file ends early");
  }

  InputFile& file_;
  const std::string& path_;
  std::vector<std::byte> block_;
  std::int64_t begin_ = 0;
};

Manifest read_manifest(FileSystem& files, const CheckpointPlace& place) {
  const std::string path = step_folder(place) + "/" + std::string(kManifestName);
  const std::unique_ptr<InputFile> file = files.open(path);
  if (file->size() > kMaxManifestBytes) {
    damaged(path, "has " + std::to_string(file->size()) + " bytes; a manifest has at most " +
                      std::to_string(kMaxManifestBytes));
  }
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  if (!read_all(*file, 0, std::as_writable_bytes(std::span(text)))) {
    damaged(path, "the file ends early");
  }
  try {
    Manifest manifest = parse_manifest(text);
    if (manifest.step != place.step) {
      damaged(path, "is the manifest of step " + std::to_string(manifest.step));
    }
    return manifest;
  } catch (const FormatError& error) {
    throw CheckpointError(error.foreign() ? CheckpointProblem::foreign : CheckpointProblem::damaged,
                          "\"" + path + "\": " + error.what());
  }
}

const TensorInfo& find_tensor(const Manifest& manifest, const TensorInfo& asked) {
  const auto found = std::lower_bound(
      manifest.tensors.begin(), manifest.tensors.end(), asked.name,
      [](const TensorInfo& tensor, const std::string& name) { return tensor.name < name; });
  if (found == manifest.tensors.end() || found->name != asked.name) {
    throw CheckpointError(CheckpointProblem::no_such_tensor,
                          "the checkpoint has no tensor \"" + asked.name + "\"");
  }
  if (*found != asked) {
    throw CheckpointError(CheckpointProblem::no_such_tensor,
                          "\"" + asked.name + "\" was saved as " + describe(*found) +
                              ", and is asked for as " + describe(asked));
  }
  return *found;
}

bool may_overlap(const ElementRuns& a, const ElementRuns& b) {
  return std::any_of(a.begin(), a.end(), [&](const ElementRun& run) {
    return std::any_of(b.begin(), b.end(),
                       [&](const ElementRun& other) { return may_overlap(run, other); });
  });
}

// Fills what the chunk, whose elements lie from `offset` in the file, holds of the request.
void copy_overlap(const ChunkRequest& request, const StoredChunk& chunk, std::int64_t offset,
                  BlockReader& reader) {
  const std::int64_t size = size_of(request.tensor.dtype);
  for_each_overlap(request.elements, chunk.elements,
                   [&](std::int64_t count, std::int64_t to, std::int64_t from) {
                     reader.read(offset + from * size,
                                 request.bytes.subspan(static_cast<std::size_t>(to * size),
                                                       static_cast<std::size_t>(count * size)));
                   });
}

}  // namespace

CheckpointReader::CheckpointReader(FileSystem& files, const CheckpointPlace& place)
    : files_(files), place_(place) {
  try {
    manifest_ = read_manifest(files, place);
  } catch (const FileError& error) {
    raise(error, CheckpointProblem::not_found);
  }
  if (const auto problem = find_coverage_problem(manifest_)) {
    damaged(step_folder(place_), problem->message);
  }
  checked_.resize(manifest_.files.size());
}

std::string CheckpointReader::path_of(const StoredFile& file) const {
  return step_folder(place_) + "/" + rank_file_name(file.rank, file.checksum);
}

std::unique_ptr<InputFile> CheckpointReader::open(const StoredFile& file) {
  try {
    std::unique_ptr<InputFile> input = files_.open(path_of(file));
    if (input->size() != file.bytes) {
      damaged(path_of(file), "has " + std::to_string(input->size()) + " bytes; the manifest says " +
                                 std::to_string(file.bytes));
    }
    return input;
  } catch (const FileError& error) {
    raise(error, CheckpointProblem::missing_file);
  }
}

void CheckpointReader::check(const StoredFile& file, InputFile& input) {
  const auto index = static_cast<std::size_t>(file.rank);
  if (checked_[index]) return;
  Checksum checksum;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(kBlockBytes, file.bytes)));
  for (std::int64_t at = 0; at < file.bytes;) {
    const auto count = std::min(static_cast<std::int64_t>(block.size()), file.bytes - at);
    const std::span<std::byte> part(block.data(), static_cast<std::size_t>(count));
    if (!read_all(input, at, part)) damaged(path_of(file), "the file ends early");
    checksum.add(part);
    at += count;
  }
  if (checksum.value() != file.checksum) {
    damaged(path_of(file), "has checksum " + hex_of(checksum.value()) + "; the manifest says " +
                               hex_of(file.checksum));
  }
  checked_[index] = true;
}

void CheckpointReader::find_files() {
  for (const StoredFile& file : manifest_.files) static_cast<void>(open(file));
}

void CheckpointReader::verify() {
  for (const StoredFile& file : manifest_.files) copy(file, {});
}

void CheckpointReader::copy(const StoredFile& file, std::span<const Match> matches) {
  const std::string path = path_of(file);
  const std::unique_ptr<InputFile> input = open(file);
  try {
    check(file, *input);
    const PayloadHeader header = read_payload_header(*input);
    std::map<std::string_view, const PayloadEntry*> entries;
    for (const PayloadEntry& entry : header.entries) entries.emplace(entry.name, &entry);
    BlockReader reader(*input, path);
    // Also for chunks without a request: a manifest and a file that disagree are no checkpoint.
    if (header.entries.size() != file.chunks.size()) {
      damaged(path, "holds " + std::to_string(header.entries.size()) +
                        " tensors; the manifest names " + std::to_string(file.chunks.size()));
    }
    for (const StoredChunk& chunk : file.chunks) {
      const auto found = entries.find(chunk.entry);
      const TensorInfo& tensor = manifest_.tensors[static_cast<std::size_t>(chunk.tensor)];
      const std::int64_t bytes = num_elements(chunk.elements) * size_of(tensor.dtype);
      if (found == entries.end() || found->second->dtype != tensor.dtype ||
          found->second->end - found->second->begin != bytes) {
        damaged(path, "does not hold \"" + chunk.entry + "\" as the manifest says");
      }
      // Matches stand in the order of the chunks.
      for (; !matches.empty() && matches.front().chunk == &chunk; matches = matches.subspan(1)) {
        copy_overlap(*matches.front().request, chunk, header.data_offset + found->second->begin,
                     reader);
      }
      entries.erase(found);  // No two chunks have the same bytes.
    }
  } catch (const FileError& error) {
    raise(error, CheckpointProblem::missing_file);
  } catch (const FormatError& error) {
    damaged(path, error.what());
  }
}

void CheckpointReader::load(std::span<const ChunkRequest> requests) {
  std::map<std::string_view, std::vector<const ChunkRequest*>> by_tensor;
  for (const ChunkRequest& request : requests) {
    if (auto problem = problem_of(request.tensor, request.elements, request.bytes.size())) {
      throw CheckpointError(CheckpointProblem::bad_chunk, *problem);
    }
    by_tensor[find_tensor(manifest_, request.tensor).name].push_back(&request);
  }
  for (const StoredFile& file : manifest_.files) {
    std::vector<Match> matches;
    for (const StoredChunk& chunk : file.chunks) {
      const auto asked =
          by_tensor.find(manifest_.tensors[static_cast<std::size_t>(chunk.tensor)].name);
      if (asked == by_tensor.end()) continue;
      for (const ChunkRequest* request : asked->second) {
        if (may_overlap(request->elements, chunk.elements)) matches.push_back({request, &chunk});
      }
    }
    if (!matches.empty()) copy(file, matches);
  }
}

LatestCheckpoint find_latest(FileSystem& files, const std::string& directory) {
  std::vector<std::int64_t> steps;
  try {
    for (const std::string& name : files.list(directory)) {
      if (const auto step = parse_step_name(name)) steps.push_back(*step);
    }
  } catch (const FileError& error) {
    raise(error, CheckpointProblem::not_found);
  }
  std::sort(steps.rbegin(), steps.rend());
  std::optional<CheckpointError> newest;
  std::vector<SkippedCheckpoint> skipped;
  for (const std::int64_t step : steps) {
    try {
      CheckpointReader reader(files, {.directory = directory, .step = step});
      reader.verify();
      return {.reader = std::move(reader), .skipped = std::move(skipped)};
    } catch (const CheckpointError& error) {
      // Without a manifest it is no checkpoint, but a save that was interrupted.
      if (error.problem() == CheckpointProblem::not_found) continue;
      if (!newest) newest = error;
      skipped.push_back({.step = step, .message = error.what()});
    }
  }
  if (newest) throw CheckpointError(*newest);
  throw CheckpointError(CheckpointProblem::not_found,
                        "there is no complete checkpoint in \"" + directory + "\"");
}

}  // namespace shardsim
