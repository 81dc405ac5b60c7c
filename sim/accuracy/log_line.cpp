#include "sim/accuracy/log_line.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace shardsim {

namespace {

constexpr std::string_view kSpace = " \t\r";

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return at;
}

// Length of a launcher's mark at the beginning, 0 if there is none.
std::size_t mark_length(std::string_view text) {
  if (!text.empty() && text.front() == '[') {
    std::size_t at = skip_digits(text, 1);
    if (at == 1) return 0;
    if (at < text.size() && text[at] == ',') at = skip_digits(text, at + 1);
    if (at >= text.size() || text[at] != ']') return 0;
    ++at;
    for (const std::string_view stream : {"<stdout>:", "<stderr>:"}) {
      if (text.substr(at, stream.size()) == stream) return at + stream.size();
    }
    return at;
  }
  const std::size_t at = skip_digits(text, 0);
  return at > 0 && text.substr(at, 2) == ": " ? at + 1 : 0;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const bool hash = words.empty() && text.front() == '#';
    const std::size_t end = hash ? 1 : std::min(text.find_first_of(kSpace), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

template <typename Number>
std::optional<Number> number_of(std::string_view word) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

}  // namespace

std::size_t LogLine::find(std::string_view word) const {
  return static_cast<std::size_t>(std::find(words.begin(), words.end(), word) - words.begin());
}

std::vector<LogLine> log_lines(std::string_view text) {
  std::vector<LogLine> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    const std::size_t indent = std::min(line.find_first_not_of(kSpace), line.size());
    const std::size_t skipped = indent + mark_length(line.substr(indent));
    line.remove_prefix(skipped);
    lines.push_back({begin + skipped, line, words_of(line)});
    begin = end + 1;
  }
  return lines;
}

std::optional<long long> whole_number(std::string_view word) { return number_of<long long>(word); }

std::optional<double> decimal_number(std::string_view word) {
  const std::optional<double> number = number_of<double>(word);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

}  // namespace shardsim
