#include "backends/rendezvous/slurm_nodes.hpp"

#include <cctype>
#include <charconv>
#include <string_view>

namespace shardsim {

namespace {

// Takes the digits at the start of `rest`.
std::optional<int> take_number(std::string_view& rest) {
  int value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

bool take(std::string_view& rest, std::string_view prefix) {
  if (rest.substr(0, prefix.size()) != prefix) return false;
  rest.remove_prefix(prefix.size());
  return true;
}

bool is_name(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!plain && c != '-' && c != '.' && c != '_') return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> first_slurm_node(const std::string& list) {
  // Names may have several bracketed parts: "rack[1-2]node[03-04]". The first of each is the first.
  std::string name;
  std::string_view rest = list;
  while (!rest.empty() && rest.front() != ',') {
    if (!take(rest, "[")) {
      name += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view ranges = rest.substr(0, close);
    const std::string_view first = ranges.substr(0, ranges.find_first_of("-,"));
    if (first.empty()) return std::nullopt;
    for (const char c : ranges) {
      const bool digit = c >= '0' && c <= '9';
      if (!digit && c != '-' && c != ',') return std::nullopt;
    }
    name += first;
    rest.remove_prefix(close + 1);
  }
  if (!is_name(name)) return std::nullopt;
  return name;
}

std::optional<int> slurm_tasks_on_node(const std::string& list, int node) {
  std::string_view rest = list;
  while (true) {
    const std::optional<int> tasks = take_number(rest);
    if (!tasks) return std::nullopt;
    int repeated = 1;
    if (take(rest, "(x")) {
      const std::optional<int> times = take_number(rest);
      if (!times || *times == 0 || !take(rest, ")")) return std::nullopt;
      repeated = *times;
    }
    if (node < repeated) return tasks;
    node -= repeated;
    if (!take(rest, ",")) return std::nullopt;
  }
}

}  // namespace shardsim
