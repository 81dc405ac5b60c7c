#include "scenarios/scenario_error.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "scenarios/wrapped_text.hpp"

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

// The name by which GitHub knows a file: relative to the checkout, which GITHUB_WORKSPACE names
// there. Elsewhere as it was given. Empty for what is no file, or lies outside.
std::string file_in_checkout(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return "";
  // Read once per failure, and only to name a file.
  const char* const checkout = std::getenv("GITHUB_WORKSPACE");  // NOLINT(concurrency-mt-unsafe)
  if (checkout == nullptr || *checkout == '\0') return file;
  const fs::path whole = fs::canonical(file, error);
  if (error) return "";
  const fs::path root = fs::canonical(checkout, error);
  if (error) return "";
  const fs::path below = whole.lexically_relative(root);
  return below.empty() || *below.begin() == ".." ? "" : below.string();
}

constexpr std::size_t kHelpIndent = 8;  // That of "= help: ".

// The line with the carets. A line that is too wide is cut on both sides, around the carets.
std::string excerpt_text(const Problem& problem, const std::string& note, const std::string& margin,
                         std::size_t width) {
  constexpr std::size_t kBefore = 8;  // Columns to see before the carets.
  constexpr std::size_t kLeastRoom = 20;
  const auto caret = static_cast<std::size_t>(std::max(problem.excerpt.caret_column, 0));
  const auto length = static_cast<std::size_t>(std::max(problem.excerpt.caret_length, 1));
  const std::size_t whole = std::max(num_columns(problem.excerpt.text), caret + length);
  const std::size_t before_text = margin.size() + 2;
  const std::size_t room =
      width == 0 ? whole : std::max(width - std::min(width, before_text), kLeastRoom);
  const std::size_t begin = whole <= room ? 0 : caret - std::min(caret, kBefore);
  const std::size_t carets = std::min(length, room - (caret - begin));
  std::string out = margin + "|\n" + margin.substr(0, 1) + std::to_string(problem.line) + " | " +
                    columns_of(problem.excerpt.text, begin, room) + "\n";
  const std::string marks =
      margin + "| " + std::string(caret - begin, ' ') + std::string(carets, '^');
  if (note.empty()) return out + marks + "\n";
  if (width == 0 || num_columns(marks) + 1 + num_columns(note) <= width) {
    return out + marks + " " + note + "\n";
  }
  return out + marks + "\n" +
         wrapped(margin + "= note: ", note, width, margin.size() + kHelpIndent);
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

std::string render(const Problem& problem, std::size_t width) {
  constexpr std::size_t kMessageIndent = 4;
  std::string out = wrapped("error[" + problem.code + "]: ", printable(problem.message, kWholeText),
                            width, kMessageIndent);
  const std::string number = problem.line > 0 ? std::to_string(problem.line) : "";
  const std::string margin = spaces(static_cast<int>(number.size()) + 2);
  std::string place = printable(problem.file, 200);
  if (problem.line > 0) place += ":" + number + ":" + std::to_string(problem.column);
  if (!problem.pointer.empty()) place += "   at " + printable(problem.pointer, 120);
  out += wrapped(margin.substr(1) + "--> ", place, width, margin.size() + 3);
  const std::string note = printable(problem.label, kWholeText);
  if (!problem.excerpt.text.empty()) {
    out += excerpt_text(problem, note, margin, width);
  } else if (!note.empty()) {
    out += wrapped(margin + "= note: ", note, width, margin.size() + kHelpIndent);
  }
  if (!problem.help.empty()) {
    out += wrapped(margin + "= help: ", printable(problem.help, kWholeText), width,
                   margin.size() + kHelpIndent);
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

std::string ScenarioError::render_all(std::size_t width) const {
  std::string out;
  for (const Problem& problem : problems_) out += render(problem, width);
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
  nlohmann::ordered_json object = {{"errors", std::move(list)}};
  if (num_dropped_ > 0) object["more"] = num_dropped_;
  // File names and pointers may hold bytes that are not UTF-8; they are shown as U+FFFD.
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string ScenarioError::to_annotations() const {
  std::string out;
  for (const Problem& problem : problems_) {
    const std::string file = file_in_checkout(problem.file);
    out += "::error ";
    if (!file.empty()) out += "file=" + escaped(file, true) + ",";
    if (!file.empty() && problem.line > 0) {
      out +=
          "line=" + std::to_string(problem.line) + ",col=" + std::to_string(problem.column) + ",";
    }
    out += "title=" + problem.code + "::";
    // A place that the page of a change cannot show, such as --set, is said in words.
    if (file.empty() && !problem.file.empty()) out += escaped(problem.file + ": ", false);
    out += escaped(problem.message, false);
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
