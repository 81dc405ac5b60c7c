#include "sim/console/junit.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <ostream>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"
#include "sim/kernel/version.hpp"

#include "reports/result.hpp"
#include "reports/verdict_words.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD.

// XML 1.0 has neither these nor control characters (production 2).
bool is_no_character(char32_t character) { return character == 0xFFFE || character == 0xFFFF; }

// C0, delete and C1.
bool is_control(char32_t character) {
  return character < 0x20 || (character >= 0x7F && character < 0xA0);
}

std::string_view entity_of(char32_t character) {
  switch (character) {
    case U'&':
      return "&amp;";
    case U'<':
      return "&lt;";
    case U'>':
      return "&gt;";
    case U'"':
      return "&quot;";
    default:
      return "";
  }
}

std::string escaped_xml(std::string_view text, bool is_attribute) {
  std::string out;
  std::size_t length = 0;
  for (std::size_t at = 0; at < text.size(); at += length) {
    char32_t character = 0;
    const int decoded = decode_utf8(text, at, character);
    length = static_cast<std::size_t>(std::max(decoded, 1));
    const std::string_view entity = entity_of(character);
    if (decoded == 0 || is_no_character(character)) {
      out += kReplacement;
    } else if (character == U'\n' || character == U'\t') {
      out += is_attribute ? ' ' : text[at];
    } else if (!is_control(character)) {
      out += entity.empty() ? text.substr(at, length) : entity;
    }
  }
  return out;
}

std::string attribute(const char* name, std::string_view value) {
  return fmt::format(" {}=\"{}\"", name, escaped_xml(value, true));
}

// In UTC; the schema allows no time zone.
std::string timestamp() {
  std::time_t now = std::time(nullptr);
  const char* const epoch = std::getenv("SOURCE_DATE_EPOCH");  // NOLINT(concurrency-mt-unsafe)
  if (epoch != nullptr) {
    constexpr std::int64_t kLatest = 253402300799;  // The last second of the year 9999.
    const auto told = parse_number<std::int64_t>(std::string_view(epoch));
    if (told && *told >= 0 && *told <= kLatest) now = static_cast<std::time_t>(*told);
  }
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

const char* element_of(CaseOutcome outcome) {
  return outcome == CaseOutcome::failed ? "failure" : "error";
}

std::string case_xml(const JunitCase& each) {
  std::string out = "    <testcase" + attribute("classname", each.class_name) +
                    attribute("name", each.name) + " time=\"0\"";
  if (each.outcome == CaseOutcome::passed) return out + "/>\n";
  if (each.outcome == CaseOutcome::skipped) {
    return out + ">\n      <skipped" + attribute("message", each.message) + "/>\n    </testcase>\n";
  }
  const char* const element = element_of(each.outcome);
  out += fmt::format(">\n      <{}", element) + attribute("message", each.message) +
         attribute("type", each.type);
  out += each.text.empty() ? "/>"
                           : ">" + escaped_xml(each.text, false) + fmt::format("</{}>", element);
  return out + "\n    </testcase>\n";
}

}  // namespace

std::string junit_xml(std::string_view suite, const std::vector<JunitCase>& cases,
                      std::string_view messages) {
  const auto count = [&cases](CaseOutcome outcome) {
    return std::ranges::count(cases, outcome, &JunitCase::outcome);
  };
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite" +
                    attribute("name", suite) + attribute("package", "shardsim") + " id=\"0\"" +
                    attribute("timestamp", timestamp()) + " hostname=\"localhost\"";
  out += fmt::format(
      " tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"0\">\n"
      "    <properties>\n      <property name=\"shardsim.version\" value=\"{}\"/>\n"
      "    </properties>\n",
      cases.size(), count(CaseOutcome::failed), count(CaseOutcome::error),
      count(CaseOutcome::skipped), escaped_xml(version(), true));
  for (const JunitCase& each : cases) out += case_xml(each);
  out += "    <system-out/>\n    ";
  out += messages.empty() ? "<system-err/>"
                          : "<system-err>" + escaped_xml(messages, false) + "</system-err>";
  return out + "\n  </testsuite>\n</testsuites>\n";
}

std::vector<JunitCase> cases_of(const Result& result, const std::string& file) {
  std::vector<JunitCase> cases;
  for (const ExpectationResult& row : result.expectations) {
    JunitCase each{.class_name = file,
                   .name = fmt::format("expect {} {} {}", row.metric, row.op, row.expected)};
    if (!row.passed) {
      each.outcome = CaseOutcome::failed;
      each.type = "expect";
      each.message = expectation_text(row, result);
    }
    cases.push_back(std::move(each));
  }
  for (const Check& check : result.checks) {
    JunitCase each{.class_name = file, .name = "check " + check.name};
    if (!check.passed) {
      each.outcome = CaseOutcome::failed;
      each.type = check.name;
      each.message = check.detail;
    }
    cases.push_back(std::move(each));
  }
  // It says no more than that: a plan that does not fit fails its check of memory.
  JunitCase ends{.class_name = file, .name = "the run came to its end"};
  if (result.diagnosis) {
    ends.outcome = CaseOutcome::failed;
    ends.type = result.diagnosis->code;
    ends.message = result.diagnosis->summary;
  }
  cases.push_back(std::move(ends));
  return cases;
}

void tell_failures(const std::vector<JunitCase>& cases, std::ostream& err) {
  for (const JunitCase& each : cases) {
    if (each.outcome != CaseOutcome::failed && each.outcome != CaseOutcome::error) continue;
    // The message of an expectation repeats its name, with the value behind it.
    const std::string what = each.type == "expect" ? "expectation" : each.name;
    err << fmt::format("failed: {}: {}{}{}\n", printable(each.class_name, kWholeText), what,
                       each.type == "expect" ? " " : ": ", printable(each.message, kWholeText));
  }
}

JunitCase case_of(const Problem& problem) {
  std::string place = problem.file.empty() ? std::string("command line") : problem.file;
  if (problem.line > 0) place += fmt::format(":{}:{}", problem.line, problem.column);
  return {.class_name = problem.file.empty() ? "shardsim" : problem.file,
          .name = problem.code + (problem.pointer.empty() ? "" : " at " + problem.pointer),
          .outcome = CaseOutcome::error,
          .type = problem.code,
          .message = problem.message,
          .text = place + ": " + problem.message +
                  (problem.help.empty() ? "" : "\nhelp: " + problem.help)};
}

}  // namespace shardsim
