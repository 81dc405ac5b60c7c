#pragma once

#include <span>
#include <string>
#include <vector>

#include "strategies/checkpoint/checkpoint_error.hpp"
#include "strategies/checkpoint/chunk.hpp"
#include "strategies/checkpoint/file_system.hpp"
#include "strategies/checkpoint/manifest.hpp"

// Saving a checkpoint, in two parts with the caller's communication between them. Nothing here
// talks to other ranks, or throws for mistakes of a disk or a caller. A rank that failed says so in
// its status and continues to the next collective, so that all ranks end alike.
//
//   RankWrite written = write_rank_file(files, place, rank, chunks, scalars);     // every rank
//   worst = all_reduce(written.status.number(), MAX);
//   if (worst == 0) {
//     reports = gather(to_text(written.report));          // to rank 0, which parses them
//     rank 0: status = commit(files, place, reports);
//     worst = broadcast(status.number());                 // from rank 0
//   }
//   if (worst != 0) { rank 0: discard(files, place); every rank: raise_if_failed(...); }
//
// A checkpoint exists from the moment its manifest has its name; that rename is the only step that
// matters to a reader. Stopped at any call, the folder holds the old state or the new one. One save
// at a time per directory. docs/guide/checkpoint-format.md describes the files.
namespace shardsim {

/// How many checkpoints are kept: the new one and the newest complete one before it.
inline constexpr int kCheckpointsKept = 2;

struct RankWrite {
  SaveStatus status;
  RankReport report;  // Valid only if the status is ok.
};

/// Writes what this rank holds: makes the folders, writes a temporary, syncs and renames it, syncs
/// the folder. A rank without chunks writes a file, too. `scalars` must be the same on all ranks.
[[nodiscard]] RankWrite write_rank_file(FileSystem& files, const CheckpointPlace& place, int rank,
                                        std::span<const Chunk> chunks, const Scalars& scalars);

/// Makes the files of all ranks a checkpoint. REQUIRES: every rank's write succeeded. Refuses, and
/// leaves no manifest, if ranks disagree or an element has no or two main copies. Once the manifest
/// is durable, removes what is older than the checkpoints kept, and what interrupted saves left in
/// this step's folder and older ones. Steps after this one are not touched. An I/O error after the
/// manifest was renamed is reported, and then the new checkpoint may be there all the same.
[[nodiscard]] SaveStatus commit(FileSystem& files, const CheckpointPlace& place,
                                std::span<const RankReport> reports);

/// Removes what a failed save left behind, if it can; never a file of a committed checkpoint.
void discard(FileSystem& files, const CheckpointPlace& place);

}  // namespace shardsim
