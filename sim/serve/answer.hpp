#pragma once

#include <functional>
#include <string>

#include "sim/kernel/error.hpp"

// Answers to clients, and the questions that the work for them may ask.
namespace shardsim {

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

/// Why work ends early.
enum class WorkEnd : int { none, client_gone, time_limit, replaced, shut_down };

/// Asked now and then, by the thread that works.
using AskEnd = std::function<WorkEnd()>;

/// Leaves a simulation early. It is no Error: an Error is a finding of the run.
struct WorkEnded {
  WorkEnd why = WorkEnd::none;
};

/// 400 with {"errors": [...]}: the same objects as those of --json.
[[nodiscard]] HttpAnswer errors_answer(const Error& error);

/// The same for work that was ended: E0363 for its time, E0364 for a newer request.
[[nodiscard]] HttpAnswer ended_answer(WorkEnd why, int limit_s);

/// 503: too many requests wait (E0365).
[[nodiscard]] HttpAnswer busy_answer();

/// `text` in quotes, as JSON has it. ASCII.
[[nodiscard]] std::string json_text(const std::string& text);

/// "NAME": VALUE, where the value is JSON already.
[[nodiscard]] std::string json_member(const std::string& name, const std::string& value);

}  // namespace shardsim
