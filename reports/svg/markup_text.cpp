#include "reports/svg/markup_text.hpp"

#include "reports/terminal_text.hpp"

namespace shardsim {

std::string markup_text(std::string_view text) {
  std::string escaped;
  for (const char c : escape_untrusted(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace shardsim
