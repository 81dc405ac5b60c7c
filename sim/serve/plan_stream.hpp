#pragma once

#include <functional>
#include <string>

#include "sim/serve/answer.hpp"

// A search as events, while it runs.
namespace shardsim {

/// Takes one event of the stream, whole: "event: best\ndata: {...}\n\n".
using SendEvent = std::function<void(const std::string& event)>;

/// Sends "best" for each new best layout, with its fields by the names of the scenario, and
/// "done" with why it ended; "error" with {"errors": [...]} in place of all. `end` is asked by
/// several threads.
void stream_plan(const std::string& request, int jobs, const AskEnd& end, const SendEvent& send);

}  // namespace shardsim
