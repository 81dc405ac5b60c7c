#include "reports/csv_cell.hpp"

#include <charconv>

namespace shardsim {

namespace {

bool is_number(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

bool is_formula(std::string_view text) {
  constexpr std::string_view kFirst = "=+-@\t\r\n";
  return !text.empty() && kFirst.find(text.front()) != std::string_view::npos && !is_number(text);
}

}  // namespace

std::string csv_cell(std::string_view text) {
  const std::string plain = (is_formula(text) ? "'" : "") + std::string(text);
  if (plain.find_first_of(",\"\r\n") == std::string::npos) return plain;
  std::string quoted = "\"";
  for (const char letter : plain) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

}  // namespace shardsim
