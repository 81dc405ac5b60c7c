#pragma once

#include <string>
#include <string_view>

// Amounts as planners write them: "10T" tokens, "90d", "6M" dollars.
namespace shardsim {

/// A number with an optional suffix: k, M, B or G, T; "1.5T" is 1.5e12. `option` is
/// named in errors. Throws UsageError E1335 unless the amount is finite and above 0.
[[nodiscard]] double read_amount(std::string_view text, std::string_view option);

/// A share: "0.1" or "10%". Throws UsageError E1335 unless it is from 0 to below 1.
[[nodiscard]] double read_share(std::string_view text, std::string_view option);

/// Days: a number with an optional h, d, w or y (365 days); without one they are days. Throws
/// UsageError E1335 as above.
[[nodiscard]] double read_days(std::string_view text, std::string_view option);

}  // namespace shardsim
