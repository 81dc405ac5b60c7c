#pragma once

#include <string>

// The script and the style of every page, made from reports/web/dist by reports/web/embed.py.
namespace shardsim::html {

/// The charts' script with the licences of its parts, and the style sheet.
[[nodiscard]] std::string report_script();
[[nodiscard]] std::string report_style();

/// SHA-256 of the script in base64, as a Content-Security-Policy names the only script it lets run.
[[nodiscard]] std::string report_script_hash();

}  // namespace shardsim::html
