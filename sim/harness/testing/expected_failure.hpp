#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "sim/harness/check.hpp"

// The failure that a test expects from a check. It is the base of the matchers of all test
// frameworks, which only differ in their messages.
namespace shardsim {

/// A code, and as much of the rest as the test cares for. Ranks are those of the side that the
/// report names first, the likely culprit. They are those of all sides where none can be blamed:
/// cycles, messages whose ends disagree. The place is that of the first of these sides that has
/// one. `Matcher` is the class that derives from it.
template <class Matcher>
class ExpectedFailure {
 public:
  explicit ExpectedFailure(std::string code) : code_(std::move(code)) {}

  /// By exactly these ranks, in any order.
  Matcher& on(std::vector<int> ranks) {
    ranks_ = std::move(ranks);
    std::ranges::sort(ranks_);
    return self();
  }
  /// In this file: its path, or the end of it ("gossip.hpp"). Line 0: any.
  Matcher& at(std::string file, int line = 0) {
    file_ = std::move(file);
    line_ = line;
    return self();
  }
  /// In a function of this name, which stays true when lines move.
  Matcher& in(std::string function) {
    function_ = std::move(function);
    return self();
  }
  /// With these words anywhere in the report.
  Matcher& saying(std::string words) {
    words_ = std::move(words);
    return self();
  }

 protected:
  [[nodiscard]] bool is(const CheckReport& report) const {
    if (!report.failure || report.failure->code != code_) return false;
    return (ranks_.empty() || is_on(report.failure->sides)) && is_at(report.failure->sides) &&
           report.to_text().find(words_) != std::string::npos;
  }
  /// "fails with DEADLOCK on ranks 0-3 at gossip.hpp:41".
  [[nodiscard]] std::string text() const {
    std::string text = "fails with " + code_;
    if (!ranks_.empty()) {
      text += (ranks_.size() == 1 ? " on rank " : " on ranks ") + format_ranks(ranks_);
    }
    if (!file_.empty()) text += " at " + file_;
    if (line_ != 0) text += ":" + std::to_string(line_);
    if (!function_.empty()) text += " in " + function_ + "()";
    if (!words_.empty()) text += " saying \"" + words_ + "\"";
    return text;
  }

 private:
  Matcher& self() { return static_cast<Matcher&>(*this); }
  [[nodiscard]] bool is_on(const std::vector<DiagnosisSide>& sides) const {
    std::vector<int> all;
    for (const DiagnosisSide& side : sides) {
      all.insert(all.end(), side.ranks.begin(), side.ranks.end());
    }
    std::ranges::sort(all);
    return all == ranks_ || (!sides.empty() && sides.front().ranks == ranks_);
  }
  [[nodiscard]] bool is_at(const std::vector<DiagnosisSide>& sides) const {
    if (file_.empty() && function_.empty()) return true;
    // Ranks that miss a call are missed where the others made it.
    const auto side = std::ranges::find_if(
        sides, [](const DiagnosisSide& one) { return *one.site.file != '\0'; });
    return side != sides.end() && is_in_file(side->site.file) &&
           (line_ == 0 || side->site.line == line_) &&
           (function_.empty() || function_ == side->site.function);
  }
  // "ring.hpp" is the end of "src/ring.hpp", and not of "src/string.hpp".
  [[nodiscard]] bool is_in_file(std::string_view path) const {
    if (!path.ends_with(file_)) return false;
    return file_.empty() || path.size() == file_.size() ||
           path[path.size() - file_.size() - 1] == '/';
  }

  std::string code_;
  std::vector<int> ranks_;
  std::string file_;
  int line_ = 0;
  std::string function_;
  std::string words_;
};

}  // namespace shardsim
