#pragma once

#include <optional>
#include <string>

#include "sim/serve/answer.hpp"
#include "sim/serve/serve_limits.hpp"

// The two answers to a scenario.
namespace shardsim {

/// The server, as its workers see it.
struct ServeSetting {
  std::string folder;  ///< Where scenarios may read files; empty: nowhere.
  ServeLimits limits;
};

/// The result object, byte by byte as `shardsim run --json` prints it. Nothing if the run is longer
/// than a moment (ServeLimits::max_short_passes) and may not be.
[[nodiscard]] std::optional<HttpAnswer> answer_run(const std::string& scenario,
                                                   const ServeSetting& setting, bool may_be_long,
                                                   const AskEnd& end);

/// The same object as "result" and, in the words of the text page, "tiles", "bars", "verdict" and
/// "text".
[[nodiscard]] std::optional<HttpAnswer> answer_show(const std::string& scenario,
                                                    const ServeSetting& setting, bool may_be_long,
                                                    const AskEnd& end);

}  // namespace shardsim
