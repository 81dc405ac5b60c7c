#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

// Test results as XML that CI services read: GitLab, Jenkins, and actions of GitHub.
// Source of the form: the schema of Apache Ant's JUnit tasks (Windy Road Technology 2011, JUnit.xsd
// of windyroad/JUnit-Schema).
namespace shardsim {

struct Result;
struct Problem;

/// failed: a check did not hold. error: nothing could be checked.
enum class CaseOutcome { passed, failed, error, skipped };

struct JunitCase {
  std::string class_name;  ///< The scenario.
  std::string name;        ///< "mfu >= 0.38"
  CaseOutcome outcome = CaseOutcome::passed;
  std::string type;     ///< The code: "expect", "memory", "E0107". Not for a case that has passed.
  std::string message;  ///< A line.
  std::string text;     ///< More lines; may be empty.
};

/// One suite. Characters that XML does not have become U+FFFD, control characters are dropped. The
/// time of its making is that of SOURCE_DATE_EPOCH, if set, so that builds can be reproduced.
/// `messages` is the suite's <system-err>: the schema has none for a case.
[[nodiscard]] std::string junit_xml(std::string_view suite, const std::vector<JunitCase>& cases,
                                    std::string_view messages = "");

/// A case of each check and expectation of a run, and of its diagnosis if it did not finish.
[[nodiscard]] std::vector<JunitCase> cases_of(const Result& result, const std::string& file);

/// A line for each case that failed: "failed: plan.json: expect mfu >= 0.9: 0.537 by the model".
void tell_failures(const std::vector<JunitCase>& cases, std::ostream& err);

/// A case that could not be judged, because of this problem.
[[nodiscard]] JunitCase case_of(const Problem& problem);

}  // namespace shardsim
