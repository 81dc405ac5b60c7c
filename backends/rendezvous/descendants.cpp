#include "backends/rendezvous/descendants.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

namespace shardsim {

namespace {

// The fourth field of /proc/PID/stat; the second, the name in parentheses, may hold anything.
int parent_of(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos || close + 4 >= text.size()) return -1;
  int parent = -1;
  std::from_chars(text.data() + close + 4, text.data() + text.size(), parent);
  return parent;
}

}  // namespace

std::vector<int> descendants_of(int pid) {
  std::multimap<int, int> children;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry("/proc", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    int number = 0;
    const auto [last, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || last != name.data() + name.size()) continue;
    children.emplace(parent_of(entry->path()), number);
  }
  std::vector<int> found = {pid};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

}  // namespace shardsim
