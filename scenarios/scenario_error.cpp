#include "scenarios/scenario_error.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace shardsim {
namespace {

std::string spaces(int count) {
  return std::string(static_cast<std::size_t>(std::max(count, 0)), ' ');
}

// The E03xx family: legal, but more than this program will take on.
bool is_limit(const Problem& problem) { return problem.code.starts_with("E03"); }

ExitCode exit_code_of(const std::vector<Problem>& problems) {
  const bool only_limits = std::all_of(problems.begin(), problems.end(), is_limit);
  return only_limits ? ExitCode::does_not_fit : ExitCode::bad_usage;
}

// One line for each file with fixes that are certain without asking.
std::string offers_of_fixes(const std::vector<Problem>& problems) {
  std::vector<std::string> files;  // In order of appearance.
  for (const Problem& problem : problems) {
    const bool known = std::find(files.begin(), files.end(), problem.file) != files.end();
    if (!problem.fix.edits.empty() && !known) files.push_back(problem.file);
  }
  std::string out;
  for (const std::string& file : files) {
    std::size_t fixable = 0;
    std::size_t all = 0;
    for (const Problem& problem : problems) {
      if (problem.file != file) continue;
      ++all;
      if (!problem.fix.edits.empty()) ++fixable;
    }
    const std::string count =
        fixable < all ? std::to_string(fixable) + " of these " + std::to_string(all) + " problems"
        : all == 1    ? std::string("this problem")
                      : "these " + std::to_string(all) + " problems";
    out += "`shardsim fix " + printable(file, 200) + "` fixes " + count + "\n";
  }
  return out;
}

nlohmann::ordered_json json_of(const Fix& fix) {
  if (fix.edits.empty()) return nullptr;
  nlohmann::ordered_json edits = nlohmann::ordered_json::array();
  for (const TextEdit& edit : fix.edits) {
    edits.push_back({{"offset", edit.offset}, {"length", edit.length}, {"text", edit.text}});
  }
  return {{"message", fix.message}, {"edits", std::move(edits)}};
}

// Escapes of GitHub's workflow commands; property values must hide their separators, too. The
// escapes cover line ends; other control characters would reach readers of the log.
std::string escaped(const std::string& text, bool property) {
  std::string out;
  for (const char c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0 && c != '\r' && c != '\n') {
      out += printable({&c, 1});
      continue;
    }
    const bool hidden = c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
    if (!hidden) {
      out += c;
      continue;
    }
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto code = static_cast<unsigned char>(c);
    out += {'%', kDigits[code / kDigits.size()], kDigits[code % kDigits.size()]};
  }
  return out;
}

}  // namespace

std::string pointer_to(const std::string& parent, const std::string& key) {
  std::string result = parent + "/";
  for (const char c : key) {
    result += c == '~' ? std::string("~0") : c == '/' ? std::string("~1") : std::string(1, c);
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
  Problem problem{code, "", 0, 0, pointer, message, label, help, {}, {}};
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
  std::string out = "error[" + problem.code + "]: " + printable(problem.message, kWholeText) + "\n";
  const std::string number = problem.line > 0 ? std::to_string(problem.line) : "";
  const std::string margin = spaces(static_cast<int>(number.size()) + 2);
  out += margin.substr(1) + "--> " + printable(problem.file, 200);
  if (problem.line > 0) out += ":" + number + ":" + std::to_string(problem.column);
  if (!problem.pointer.empty()) out += "   at " + printable(problem.pointer, 120);
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

void ProblemList::throw_if_any() const {
  if (!problems_.empty()) throw ScenarioError(problems_, num_dropped_);
}

ScenarioError::ScenarioError(std::vector<Problem> problems, std::size_t num_dropped)
    : Error(exit_code_of(problems), problems.front().code, problems.front().message,
            problems.front().help),
      problems_(std::move(problems)),
      num_dropped_(num_dropped) {}

std::string ScenarioError::render_all() const {
  std::string out;
  for (const Problem& problem : problems_) out += render(problem);
  if (num_dropped_ > 0) out += "and " + std::to_string(num_dropped_) + " more problems\n";
  return out + offers_of_fixes(problems_);
}

std::string ScenarioError::to_json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Problem& problem : problems_) {
    nlohmann::ordered_json item = {
        {"code", problem.code}, {"severity", "error"}, {"file", problem.file}};
    if (problem.line > 0) {
      item["line"] = problem.line;
      item["column"] = problem.column;
    }
    item["pointer"] = problem.pointer;
    item["message"] = problem.message;
    item["help"] = problem.help;
    item["fix"] = json_of(problem.fix);
    list.push_back(std::move(item));
  }
  // File names and pointers may hold bytes that are not UTF-8; they are shown as U+FFFD.
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string ScenarioError::to_annotations() const {
  std::string out;
  for (const Problem& problem : problems_) {
    out += "::error ";
    if (!problem.file.empty()) out += "file=" + escaped(problem.file, true) + ",";
    if (problem.line > 0) {
      out +=
          "line=" + std::to_string(problem.line) + ",col=" + std::to_string(problem.column) + ",";
    }
    out += "title=" + problem.code + "::" + escaped(problem.message, false);
    const std::string more = problem.label.empty() ? problem.help : problem.label;
    out += (more.empty() ? "" : escaped(" (" + more + ")", false)) + "\n";
  }
  return out;
}

void throw_problem(const std::string& code, const Span& span, const std::string& message,
                   const std::string& help) {
  ProblemList problems;
  problems.add(code, span, "", message, help);
  throw ScenarioError(problems.problems(), problems.num_dropped());
}

}  // namespace shardsim
