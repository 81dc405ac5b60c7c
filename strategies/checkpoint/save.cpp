#include "strategies/checkpoint/save.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "strategies/checkpoint/load.hpp"
#include "strategies/checkpoint/names.hpp"
#include "strategies/checkpoint/payload.hpp"

namespace shardsim {

namespace {

void check_common(const CheckpointPlace& place, int rank, const Scalars& scalars) {
  constexpr int kMaxRank = (1 << 24) - 1;  // Limit of SaveStatus::number and manifests.
  if (place.directory.empty() || place.step < 0 || rank < 0 || rank > kMaxRank) {
    throw CheckpointError(CheckpointProblem::bad_chunk,
                          concat("a save needs a directory, a step and a rank of 0 or more, not \"",
                                 place.directory, "\", ", place.step, " and ", rank));
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

[[noreturn]] void disagree(const std::string& why) {
  throw CheckpointError(CheckpointProblem::disagreement, why);
}

void check_scalar(const std::string& name, const RankReport& mine, const RankReport& theirs) {
  const auto has = [&name](const RankReport& report) -> const ScalarValue* {
    const auto found = report.scalars.find(name);
    return found == report.scalars.end() ? nullptr : &found->second;
  };
  const ScalarValue* a = has(mine);
  const ScalarValue* b = has(theirs);
  if (a != nullptr && b != nullptr && same_scalar(*a, *b)) return;
  const auto text = [](const ScalarValue* value, const RankReport& report) {
    return concat(value != nullptr ? describe(*value) : "absent", " on rank ", report.file.rank);
  };
  disagree("scalar \"" + name + "\" is " + text(a, mine) + " and " + text(b, theirs));
}

void check_scalars(const RankReport& mine, const RankReport& theirs) {
  for (const auto& [name, value] : mine.scalars) check_scalar(name, mine, theirs);
  for (const auto& [name, value] : theirs.scalars) check_scalar(name, mine, theirs);
}

// All tensors by name, with what rank said so first.
using TensorMap = std::map<std::string, std::pair<const TensorInfo*, int>>;

TensorMap merge_tensors(std::span<const RankReport* const> reports) {
  TensorMap tensors;
  for (const RankReport* report : reports) {
    for (const TensorInfo& tensor : report->tensors) {
      const auto [known, is_new] =
          tensors.emplace(tensor.name, std::pair(&tensor, report->file.rank));
      if (!is_new && *known->second.first != tensor) {
        disagree(concat("\"", tensor.name, "\" is ", describe(*known->second.first), " on rank ",
                        known->second.second, " and ", describe(tensor), " on rank ",
                        report->file.rank));
      }
    }
  }
  return tensors;
}

std::vector<const RankReport*> in_order_of_ranks(std::span<const RankReport> reports,
                                                 const CheckpointPlace& place) {
  std::vector<const RankReport*> sorted;
  for (const RankReport& report : reports) sorted.push_back(&report);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->file.rank < b->file.rank; });
  for (std::size_t r = 0; r < sorted.size(); ++r) {
    if (sorted[r]->file.rank != static_cast<int>(r)) {
      disagree(concat(sorted.size(), " reports are not those of ranks 0 to ", sorted.size() - 1,
                      ", each once"));
    }
    if (sorted[r]->step != place.step) {
      disagree(concat("rank ", r, " saved step ", sorted[r]->step, ", not ", place.step));
    }
  }
  if (sorted.empty()) disagree("there is no report of any rank");
  return sorted;
}

Manifest merge(std::span<const RankReport> reports, const CheckpointPlace& place) {
  const std::vector<const RankReport*> sorted = in_order_of_ranks(reports, place);
  Manifest manifest{.step = place.step, .scalars = sorted.front()->scalars};
  for (const RankReport* report : sorted) check_scalars(*sorted.front(), *report);
  std::map<std::string, int> index;
  for (const auto& [name, tensor] : merge_tensors(sorted)) {
    index.emplace(name, static_cast<int>(manifest.tensors.size()));
    manifest.tensors.push_back(*tensor.first);
  }
  for (const RankReport* report : sorted) {
    StoredFile& file = manifest.files.emplace_back(report->file);
    for (StoredChunk& chunk : file.chunks) {
      chunk.tensor = index.at(report->tensors[static_cast<std::size_t>(chunk.tensor)].name);
    }
  }
  if (const auto problem = find_coverage_problem(manifest)) {
    throw CheckpointError(problem->gap ? CheckpointProblem::gap : CheckpointProblem::overlap,
                          problem->message);
  }
  return manifest;
}

void write_manifest(FileSystem& files, const CheckpointPlace& place, const std::string& text) {
  const std::string folder = step_folder(place);
  const std::string temporary = folder + "/" + std::string(kManifestTemporary);
  {
    const std::unique_ptr<OutputFile> file = files.create(temporary);
    write_all(*file, temporary, std::as_bytes(std::span(text)));
    file->sync();
    file->close();
  }
  // All that the manifest names is durable, and the way to it, before the manifest is.
  files.sync_folder(folder);
  files.sync_folder(place.directory);
  files.sync_folder(parent_of(place.directory));
  files.rename(temporary, folder + "/" + std::string(kManifestName));
  files.sync_folder(folder);
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> files_of(const Manifest& manifest) {
  std::vector<std::string> names;
  for (const StoredFile& file : manifest.files) {
    names.push_back(rank_file_name(file.rank, file.checksum));
  }
  return names;
}

// Removes our files from a step's folder but for `kept`; files that are not ours stay.
void clean_folder(FileSystem& files, const std::string& folder,
                  const std::vector<std::string>& kept) {
  for (std::string path : files.list(folder)) {
    const bool ours = is_rank_file_name(path) || path == kManifestTemporary;
    if (ours && !holds(kept, path)) files.remove(path.insert(0, folder + "/"));
  }
}

// The manifest goes first, and durably: without it no reader takes the rest for a checkpoint.
void remove_checkpoint(FileSystem& files, const std::string& folder) {
  if (holds(files.list(folder), kManifestName)) {
    files.remove(folder + "/" + std::string(kManifestName));
    files.sync_folder(folder);
  }
  clean_folder(files, folder, {});
  files.remove_folder(folder);
}

// The manifest of a complete checkpoint, or nothing. Its bytes are not read again for this.
std::optional<Manifest> complete_manifest(FileSystem& files, const CheckpointPlace& place) {
  try {
    CheckpointReader reader(files, place);
    reader.find_files();
    return reader.manifest();
  } catch (const CheckpointError&) {
    return std::nullopt;
  }
}

void remove_old(FileSystem& files, const CheckpointPlace& place) {
  std::vector<std::int64_t> older;
  for (const std::string& name : files.list(place.directory)) {
    const auto step = parse_step_name(name);
    if (step && *step < place.step) older.push_back(*step);
  }
  std::sort(older.rbegin(), older.rend());
  int kept = 1;
  for (const std::int64_t step : older) {
    const CheckpointPlace old{.directory = place.directory, .step = step};
    const auto manifest =
        kept < kCheckpointsKept ? complete_manifest(files, old) : std::optional<Manifest>();
    if (manifest) {
      ++kept;
      if_possible([&] { clean_folder(files, step_folder(old), files_of(*manifest)); });
    } else {
      if_possible([&] { remove_checkpoint(files, step_folder(old)); });
    }
  }
  files.sync_folder(place.directory);
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

SaveStatus commit(FileSystem& files, const CheckpointPlace& place,
                  std::span<const RankReport> reports) {
  Manifest manifest;
  const SaveStatus status = attempt(0, [&] {
    manifest = merge(reports, place);
    const std::string text = to_text(manifest);
    if (static_cast<std::int64_t>(text.size()) > kMaxManifestBytes) {
      throw CheckpointError(
          CheckpointProblem::too_large,
          concat("the manifest has ", text.size(), " bytes; the limit is ", kMaxManifestBytes));
    }
    write_manifest(files, place, text);
  });
  if (!status.ok()) return status;
  // The checkpoint is safe; what cannot be tidied up now is tried again at the next save.
  if_possible([&] { clean_folder(files, step_folder(place), files_of(manifest)); });
  if_possible([&] { remove_old(files, place); });
  return status;
}

void discard(FileSystem& files, const CheckpointPlace& place) {
  const std::string folder = step_folder(place);
  if_possible([&] {
    if (!holds(files.list(folder), kManifestName)) {
      clean_folder(files, folder, {});
      files.remove_folder(folder);
      return;
    }
    // The step was saved before: its own files stay. A damaged manifest does not say which.
    const auto manifest = complete_manifest(files, place);
    if (manifest) clean_folder(files, folder, files_of(*manifest));
  });
}

}  // namespace shardsim
