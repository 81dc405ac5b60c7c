#pragma once

#include <string>

// Amounts as people who pay read them.
namespace shardsim::html {

/// "$720,000", "$1.23 M", "$12.3".
[[nodiscard]] std::string format_usd(double usd);

/// "1 T", "15.6 T", "300 B".
[[nodiscard]] std::string format_tokens(double tokens);

/// "94 days", "5.2 hours".
[[nodiscard]] std::string format_days(double days);

/// "41 %", "8.5 %": two digits.
[[nodiscard]] std::string format_share(double share);

}  // namespace shardsim::html
