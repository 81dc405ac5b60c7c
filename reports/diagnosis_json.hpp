#pragma once

#include <string>

#include "sim/kernel/diagnosis.hpp"

namespace shardsim {

/// The diagnosis as one JSON object: its form in a result (reports/schema/result.schema.json), with
/// all that its text has. For programs that check strategies of their own. ASCII; ends in a
/// newline.
[[nodiscard]] std::string to_json(const Diagnosis& diagnosis);

}  // namespace shardsim
