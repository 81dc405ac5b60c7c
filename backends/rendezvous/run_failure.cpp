#include "backends/rendezvous/run_failure.hpp"

#include <utility>

namespace shardsim {

RunFailure RunFailure::from(const Error& error) {
  RunFailure failure;
  failure.exit_code = error.exit_code();
  failure.code = error.code();
  if (const auto* communication = dynamic_cast<const CommunicationError*>(&error)) {
    failure.diagnosis = communication->diagnosis();
    return failure;
  }
  failure.message = error.what();
  failure.fix = error.fix();
  return failure;
}

RunFailure RunFailure::from(Diagnosis diagnosis, ExitCode exit_code) {
  RunFailure failure;
  failure.exit_code = exit_code;
  failure.code = diagnosis.code;
  failure.diagnosis = std::move(diagnosis);
  return failure;
}

std::string RunFailure::to_text() const {
  if (diagnosis) return diagnosis->to_text();
  std::string text = code + ": " + message + "\n";
  if (!fix.empty()) text += "  = help: " + fix + "\n";
  return text;
}

void RunFailure::raise() const {
  if (diagnosis && exit_code == ExitCode::communication) throw CommunicationError(*diagnosis);
  if (diagnosis) throw Error(exit_code, code, diagnosis->to_text(), diagnosis->hint);
  throw Error(exit_code, code, message, fix);
}

}  // namespace shardsim
