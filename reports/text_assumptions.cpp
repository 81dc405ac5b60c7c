#include "reports/text_assumptions.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kSourceIndent = 2;
constexpr std::size_t kTextIndent = 4;

bool is_assumed(const std::string& source) { return source.starts_with("assumed"); }

// Sources in the order of the result; those without a publication come first.
std::vector<std::string> sources_of(const Result& result) {
  std::vector<std::string> sources;
  for (const Assumption& assumption : result.assumptions) {
    if (std::find(sources.begin(), sources.end(), assumption.source) == sources.end()) {
      sources.push_back(assumption.source);
    }
  }
  std::stable_partition(sources.begin(), sources.end(), is_assumed);
  return sources;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  // A deeper indent of later lines shows where the next assumption begins.
  std::string out;
  for (const std::string& line :
       wrap_to_width(std::string(indent, ' ') + escape_untrusted(text), width, indent + 2)) {
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string assumptions_text(const Result& result, std::size_t width) {
  std::string out = fmt::format("\n{} numbers and simplifications, below their sources:\n",
                                result.assumptions.size());
  for (const std::string& source : sources_of(result)) {
    out += wrapped(source + ":", kSourceIndent, width);
    for (const Assumption& assumption : result.assumptions) {
      if (assumption.source == source) out += wrapped(assumption.text, kTextIndent, width);
    }
  }
  return out;
}

}  // namespace shardsim
