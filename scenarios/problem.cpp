#include "scenarios/problem.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace shardsim {
namespace {

std::string spaces(int count) {
  return std::string(static_cast<std::size_t>(std::max(count, 0)), ' ');
}

}  // namespace

bool is_limit(const Problem& problem) { return problem.code.rfind("E03", 0) == 0; }

std::string pointer_to(const std::string& parent, const std::string& key) {
  std::string result = parent + "/";
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

void ProblemList::add(const std::string& code, const Span& span, const std::string& pointer,
                      const std::string& message, const std::string& help, const std::string& label,
                      Fix fix) {
  if (full()) {
    ++num_dropped_;
    return;
  }
  Problem problem;
  problem.code = code;
  problem.pointer = pointer;
  problem.message = message;
  problem.help = help;
  problem.label = label;
  if (span.source != nullptr) {
    problem.file = span.source->name;
    if (!span.source->flag) {
      const Position position = position_of(span);
      problem.line = position.line;
      problem.column = position.column;
      problem.excerpt = excerpt_of(span);
      if (!span.source->preset) problem.fix = std::move(fix);
    }
  }
  problems_.push_back(std::move(problem));
}

void ProblemList::add_file(const std::string& code, const std::string& file,
                           const std::string& message, const std::string& help) {
  const SourceText no_text{file, "", true};
  add(code, Span{&no_text, 0, 0}, "", message, help);
}

std::string render(const Problem& problem) {
  std::string out = problem.severity == Severity::error ? "error" : "warning";
  out += "[" + problem.code + "]: " + printable(problem.message, kWholeText) + "\n";
  const std::string number = problem.line > 0 ? std::to_string(problem.line) : "";
  const std::string margin = spaces(static_cast<int>(number.size()) + 2);
  out += margin.substr(1) + "--> " + printable(problem.file, 200);
  if (problem.line > 0) {
    out += ":" + number + ":" + std::to_string(problem.column);
  }
  if (!problem.pointer.empty()) {
    out += "   at " + printable(problem.pointer, 120);
  }
  out += "\n";
  if (!problem.excerpt.text.empty()) {
    out += margin + "|\n";
    out += " " + number + " | " + problem.excerpt.text + "\n";
    out += margin + "| " + spaces(problem.excerpt.caret_column) +
           std::string(static_cast<std::size_t>(problem.excerpt.caret_length), '^');
    out += (problem.label.empty() ? "" : " " + printable(problem.label, kWholeText)) + "\n";
  } else if (!problem.label.empty()) {
    out += margin + "= note: " + printable(problem.label, kWholeText) + "\n";
  }
  if (!problem.help.empty()) {
    out += margin + "= help: " + printable(problem.help, kWholeText) + "\n";
  }
  return out;
}

}  // namespace shardsim
