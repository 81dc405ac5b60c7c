#pragma once

#include <optional>
#include <string>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/error.hpp"

namespace shardsim {

/// Why a run has failed, as data that travels between processes: a Diagnosis, or what an Error
/// holds.
struct RunFailure {
  ExitCode exit_code = ExitCode::internal;
  std::string code;     ///< Code of the diagnosis, if there is one.
  std::string message;  ///< Empty where there is a diagnosis.
  std::string fix;
  std::optional<Diagnosis> diagnosis;

  [[nodiscard]] static RunFailure from(const Error& error);
  [[nodiscard]] static RunFailure from(Diagnosis diagnosis, ExitCode exit_code);

  /// As people read it; a diagnosis with its sides.
  [[nodiscard]] std::string to_text() const;
  /// Throws it: a CommunicationError where the exit code is that of one, else an Error.
  [[noreturn]] void raise() const;
};

}  // namespace shardsim
