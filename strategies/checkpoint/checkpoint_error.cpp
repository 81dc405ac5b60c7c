#include "strategies/checkpoint/checkpoint_error.hpp"

#include <array>
#include <cerrno>
#include <cstddef>

#include "strategies/checkpoint/names.hpp"
#include "strategies/named_rows.hpp"

namespace shardsim {

namespace {

struct ProblemRow {
  CheckpointProblem problem;
  ExitCode exit_code;
  std::string_view code;
  std::string_view fix;
};

constexpr std::array kProblemRows = {
    ProblemRow{CheckpointProblem::none, ExitCode::internal, "E9999", ""},
    ProblemRow{CheckpointProblem::not_found, ExitCode::bad_usage, "E0801",
               "check the name of the folder; a save that was interrupted leaves no checkpoint"},
    ProblemRow{CheckpointProblem::permission, ExitCode::bad_usage, "E0802",
               "check the permissions of the folder, its files and the folder above"},
    ProblemRow{CheckpointProblem::io_error, ExitCode::backend_failed, "E0803",
               "check the disk or the mount; the previous checkpoint is untouched"},
    ProblemRow{CheckpointProblem::no_space, ExitCode::does_not_fit, "E0804",
               "free space or take another disk; the previous checkpoint is untouched"},
    ProblemRow{CheckpointProblem::damaged, ExitCode::bad_usage, "E0805",
               "load the previous checkpoint, or fetch this one again from where it came"},
    ProblemRow{CheckpointProblem::foreign, ExitCode::bad_usage, "E0806",
               "give the folder of a checkpoint that this version of shardsim can read"},
    ProblemRow{CheckpointProblem::missing_file, ExitCode::bad_usage, "E0807",
               "load the previous checkpoint, or put the file back"},
    ProblemRow{CheckpointProblem::overlap, ExitCode::bad_usage, "E0808",
               "hand over exactly one chunk with each element as the main copy"},
    ProblemRow{CheckpointProblem::gap, ExitCode::bad_usage, "E0809",
               "hand over every element of the tensor on some rank as the main copy"},
    ProblemRow{CheckpointProblem::disagreement, ExitCode::bad_usage, "E0810",
               "save the same step, shapes, dtypes and scalars on all ranks, each rank once"},
    ProblemRow{CheckpointProblem::bad_chunk, ExitCode::bad_usage, "E0811",
               "see the rules in strategies/checkpoint/chunk.hpp"},
    ProblemRow{CheckpointProblem::no_such_tensor, ExitCode::bad_usage, "E0812",
               "load with the model, optimizer and precision that were saved"},
    ProblemRow{CheckpointProblem::too_large, ExitCode::does_not_fit, "E0813",
               "save fewer or larger tensors per rank"},
    ProblemRow{CheckpointProblem::no_such_scalar, ExitCode::bad_usage, "E0814",
               "load with the version and the options that wrote the checkpoint"},
};
static_assert(stand_in_order(kProblemRows, &ProblemRow::problem));

const ProblemRow& problem_row_of(CheckpointProblem problem) {
  const auto index = static_cast<std::size_t>(problem);
  return kProblemRows[index < kProblemRows.size() ? index : 0];
}

// The number holds, from its lowest bits: 24 bits of (all ones less the rank), 12 of the system's
// error number, 4 of the operation, 8 of the problem.
constexpr std::int64_t kRankBits = 24;
constexpr std::int64_t kErrnoBits = 12;
constexpr std::int64_t kOperationBits = 4;
constexpr std::int64_t kLastRank = (std::int64_t{1} << kRankBits) - 1;

std::int64_t take(std::int64_t& number, std::int64_t bits) {
  const std::int64_t low = number & ((std::int64_t{1} << bits) - 1);
  number >>= bits;
  return low;
}

}  // namespace

CheckpointError::CheckpointError(CheckpointProblem problem, const std::string& message)
    : Error(problem_row_of(problem).exit_code, std::string(problem_row_of(problem).code), message,
            std::string(problem_row_of(problem).fix)),
      problem_(problem) {}

std::string_view code_of(CheckpointProblem problem) { return problem_row_of(problem).code; }

CheckpointProblem problem_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
      return CheckpointProblem::not_found;
    case EACCES:
    case EPERM:
    case EROFS:
      return CheckpointProblem::permission;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return CheckpointProblem::no_space;
    default:
      return CheckpointProblem::io_error;
  }
}

std::int64_t SaveStatus::number() const {
  if (ok()) return 0;
  auto number = static_cast<std::int64_t>(problem);
  number = (number << kOperationBits) | static_cast<std::int64_t>(operation);
  number = (number << kErrnoBits) | (error_number & ((std::int64_t{1} << kErrnoBits) - 1));
  return (number << kRankBits) | (kLastRank - rank);
}

SaveStatus SaveStatus::from_number(std::int64_t number) {
  if (number == 0) return {};
  SaveStatus status;
  status.rank = static_cast<int>(kLastRank - take(number, kRankBits));
  status.error_number = static_cast<int>(take(number, kErrnoBits));
  status.operation = static_cast<FileOperation>(take(number, kOperationBits));
  status.problem = static_cast<CheckpointProblem>(number);
  return status;
}

namespace {

// `what`: that the rank could not do. `silent`: follows where the status says nothing more.
[[noreturn]] void raise_failure(const SaveStatus& status, const std::string& what,
                                std::string_view silent) {
  std::string message = "rank " + std::to_string(status.rank) + " could not " + what;
  if (status.error_number != 0) {
    message += std::string(": ") + name_of(status.operation) +
               " failed: " + text_of_errno(status.error_number);
  } else if (!status.detail.empty()) {
    message += ": " + status.detail;
  } else {
    message += silent;
  }
  throw CheckpointError(status.problem, message);
}

}  // namespace

void raise_if_failed(const SaveStatus& status, const CheckpointPlace& place) {
  if (status.ok()) return;
  raise_failure(status, "save \"" + step_folder(place) + "\"", "; its own message says why");
}

void raise_load_failure(const SaveStatus& status, const std::string& what) {
  if (!status.ok()) raise_failure(status, "load " + what, ": its own message says why");
}

}  // namespace shardsim
