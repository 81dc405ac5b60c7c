#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

// Every failure a user can meet is an Error. It carries a stable code, one sentence about the error
// with the values involved, and the way out. `main` maps it to the process's exit code; nothing
// else in the program decides on exit codes.
namespace shardsim {

/// Exit codes of the command; scripts rely on them, so they never change meaning.
enum class ExitCode : int {
  ok = 0,
  check_failed = 1,    ///< An expectation or a check (oracle, conservation) failed.
  bad_usage = 2,       ///< Bad command line or scenario.
  does_not_fit = 3,    ///< Memory or a named limit is exceeded.
  communication = 4,   ///< Deadlock or mismatched communication.
  backend_failed = 5,  ///< MPI, NCCL, hardware.
  internal = 70,       ///< A bug of ours.
  interrupted = 130,   ///< Ctrl-C.
};

/// The parts of a message as one text; numbers as std::to_string writes them.
template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::string text;
  const auto add = [&text](const auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    static_assert(!std::is_same_v<Part, bool>, "say it in words");
    if constexpr (std::is_arithmetic_v<Part> && !std::is_same_v<Part, char>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

/// A failure with its cause and its fix.
class Error : public std::runtime_error {
 public:
  /// `code` is stable ("E0203"); `message` states values; `fix` is the way out, may be empty.
  Error(ExitCode exit_code, std::string code, const std::string& message, std::string fix = {})
      : std::runtime_error(message),
        exit_code_(exit_code),
        code_(std::move(code)),
        fix_(std::move(fix)) {}

  [[nodiscard]] ExitCode exit_code() const noexcept { return exit_code_; }
  [[nodiscard]] const std::string& code() const noexcept { return code_; }
  [[nodiscard]] const std::string& fix() const noexcept { return fix_; }

 private:
  ExitCode exit_code_;
  std::string code_;
  std::string fix_;
};

/// A caller of the library broke a documented requirement (wrong peer, wrong shape).
class UsageError : public Error {
 public:
  UsageError(std::string code, const std::string& message, std::string fix = {})
      : Error(ExitCode::bad_usage, std::move(code), message, std::move(fix)) {}
};

/// A named limit (ranks, virtual time, memory) was exceeded.
class LimitError : public Error {
 public:
  LimitError(std::string code, const std::string& message, std::string fix = {})
      : Error(ExitCode::does_not_fit, std::move(code), message, std::move(fix)) {}
};

}  // namespace shardsim
