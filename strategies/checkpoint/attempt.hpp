#pragma once

#include <cerrno>
#include <new>

#include "strategies/checkpoint/checkpoint_error.hpp"
#include "strategies/checkpoint/file_system.hpp"

namespace shardsim {

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
