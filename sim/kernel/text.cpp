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

int decode_utf8(std::string_view text, std::size_t offset, char32_t& character) {
  const auto lead = static_cast<unsigned char>(text[offset]);
  if (lead < 0x80) {
    character = lead;
    return 1;
  }
  const int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || offset + static_cast<std::size_t>(length) > text.size()) {
    return 0;
  }
  char32_t value = lead & (0xffU >> static_cast<unsigned>(length + 1));
  for (int i = 1; i < length; ++i) {
    const char byte = text[offset + static_cast<std::size_t>(i)];
    if ((static_cast<unsigned char>(byte) & 0xc0U) != 0x80U) return 0;
    value = (value << 6U) | (static_cast<unsigned char>(byte) & 0x3fU);
  }
  // Longer than needed, a surrogate half, or beyond Unicode: not UTF-8 either.
  const char32_t smallest = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  if (value < smallest || (value >= 0xd800 && value <= 0xdfff) || value > 0x10ffff) {
    return 0;
  }
  character = value;
  return length;
}

bool is_invisible(char32_t character) {
  return std::ranges::any_of(kInvisible, [character](Range range) {
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
