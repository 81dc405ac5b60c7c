#pragma once

#include <cerrno>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>

#include "sim/kernel/error.hpp"

#include "strategies/checkpoint/file_system.hpp"

// Problems of checkpoints. docs/guide/checkpoint-format.md explains each.
namespace shardsim {

enum class CheckpointProblem : std::uint8_t {
  none,
  not_found,     ///< E0801: no such folder, or no complete checkpoint in it.
  permission,    ///< E0802: the system forbids it.
  io_error,      ///< E0803: the medium, or anything else the system reports.
  no_space,      ///< E0804: disk or quota full, file too large for the file system.
  damaged,       ///< E0805: torn, truncated or changed bytes; contents that contradict each other.
  foreign,       ///< E0806: not ours, or of a version we do not know.
  missing_file,  ///< E0807: a file named by the manifest is not there.
  overlap,       ///< E0808: two main copies of one element.
  gap,           ///< E0809: an element without a main copy.
  disagreement,  ///< E0810: ranks differ in what they must share.
  bad_chunk,     ///< E0811: a chunk or request that contradicts itself.
  no_such_tensor,  ///< E0812: not in the checkpoint, or with another shape or dtype.
  too_large,       ///< E0813: more than the format allows.
  no_such_scalar,  ///< E0814: not in the checkpoint, or of another type.
};

class CheckpointError : public Error {
 public:
  CheckpointError(CheckpointProblem problem, const std::string& message);
  [[nodiscard]] CheckpointProblem problem() const noexcept { return problem_; }

 private:
  CheckpointProblem problem_;
};

/// "E0805". REQUIRES: not none.
[[nodiscard]] std::string_view code_of(CheckpointProblem problem);
/// The problem behind a system's error number.
[[nodiscard]] CheckpointProblem problem_of_errno(int error_number);

/// Which checkpoint: folder "DIRECTORY/step-00000012".
struct CheckpointPlace {
  std::string directory;
  std::int64_t step = 0;
};

/// How one rank's part of a save ended. A value and no exception, so that all ranks can first
/// agree: reduce `number()` with MAX, and have each rank raise what comes out. Nobody waits for a
/// rank that has left, and all raise the same error.
struct SaveStatus {
  CheckpointProblem problem = CheckpointProblem::none;
  FileOperation operation = FileOperation::write;  // Which call failed,
  int error_number = 0;                            // and how; 0 if no call did.
  int rank = 0;
  std::string detail;  // More than fits the number; may be empty.

  [[nodiscard]] bool ok() const { return problem == CheckpointProblem::none; }
  /// 0 if ok, else positive and below 2^53 (exact in fp64, too). Without `detail`. If several ranks
  /// have the same failure, MAX names the lowest.
  [[nodiscard]] std::int64_t number() const;
  static SaveStatus from_number(std::int64_t number);
};

/// Throws CheckpointError unless the status is ok.
void raise_if_failed(const SaveStatus& status, const CheckpointPlace& place);
/// The same. `what`: that could not be loaded.
void raise_load_failure(const SaveStatus& status, const std::string& what);

/// Runs a part of a save; what it throws becomes the status.
template <class Part>
[[nodiscard]] SaveStatus attempt(int rank, const Part& part) {
  SaveStatus status{.rank = rank};
  try {
    part();
  } catch (const FileError& error) {
    status.problem = problem_of_errno(error.error_number());
    status.operation = error.operation();
    status.error_number = error.error_number();
    status.detail = error.what();
  } catch (const CheckpointError& error) {
    status.problem = error.problem();
    status.detail = error.what();
  } catch (const std::bad_alloc&) {
    status.problem = CheckpointProblem::io_error;
    status.error_number = ENOMEM;
  }
  return status;
}

/// Runs a part whose failure changes nothing: cleaning up.
template <class Part>
void if_possible(const Part& part) {
  try {
    part();
  } catch (const FileError&) {  // NOLINT(bugprone-empty-catch): what stays behind does no harm.
  }
}

}  // namespace shardsim
