#include "sim/kernel/text.hpp"

#include <algorithm>
#include <array>

namespace shardsim {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// C0, DEL and C1; soft hyphen; zero-width and directional marks; line separators; BOM; tags.
constexpr std::array<Range, 9> kInvisible = {{{0x00, 0x1F},
                                              {0x7F, 0x9F},
                                              {0xAD, 0xAD},
                                              {0x061C, 0x061C},
                                              {0x200B, 0x200F},
                                              {0x2028, 0x202E},
                                              {0x2060, 0x206F},
                                              {0xFEFF, 0xFEFF},
                                              {0xE0000, 0xE0FFF}}};

}  // namespace

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_invisible(char32_t character) {
  return std::any_of(kInvisible.begin(), kInvisible.end(), [character](Range range) {
    return range.first <= character && character <= range.last;
  });
}

bool starts_workflow_command(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("##[")) return true;
  return rest.starts_with("::") &&
         text.substr(0, at).find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

}  // namespace shardsim
