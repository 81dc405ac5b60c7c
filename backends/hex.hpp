#pragma once

#include <optional>
#include <string>
#include <string_view>

// Bytes as hexadecimal digits: tokens, ids and values that travel as text.
namespace shardsim {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

/// Two lower-case digits per byte.
[[nodiscard]] inline std::string to_hex(std::string_view bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    hex += kHexDigits[static_cast<unsigned char>(byte) >> 4U];
    hex += kHexDigits[static_cast<unsigned char>(byte) & 15U];
  }
  return hex;
}

/// The bytes that to_hex() made this text of; nothing for any other text.
[[nodiscard]] inline std::optional<std::string> from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::size_t high = kHexDigits.find(hex[i]);
    const std::size_t low = kHexDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high << 4U | low);
  }
  return bytes;
}

}  // namespace shardsim
