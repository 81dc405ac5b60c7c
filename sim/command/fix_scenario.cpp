#include "sim/command/fix_scenario.hpp"

#include <algorithm>

#include "scenarios/load.hpp"

namespace shardsim {

namespace {

// Each round corrects at least one mistake, or is the last; nobody makes more mistakes than this.
constexpr int kMaxRounds = 1000;

bool is_fixable(const Problem& problem, const std::string& file) {
  return problem.file == file && !problem.fix.edits.empty();
}

// Ends of edits that were accepted, so that none reaches into another.
class Edits {
 public:
  bool take(const Fix& fix) {
    for (const TextEdit& edit : fix.edits) {
      for (const TextEdit& taken : taken_) {
        const bool apart =
            edit.offset + edit.length <= taken.offset || taken.offset + taken.length <= edit.offset;
        // The order of two insertions at one place would be arbitrary.
        if (!apart || edit.offset == taken.offset) return false;
      }
    }
    taken_.insert(taken_.end(), fix.edits.begin(), fix.edits.end());
    return true;
  }
  [[nodiscard]] const std::vector<TextEdit>& all() const { return taken_; }

 private:
  std::vector<TextEdit> taken_;
};

}  // namespace

std::string apply_edits(const std::string& text, std::vector<TextEdit> edits) {
  std::stable_sort(edits.begin(), edits.end(),
                   [](const TextEdit& a, const TextEdit& b) { return a.offset < b.offset; });
  std::string out;
  std::size_t done = 0;
  for (const TextEdit& edit : edits) {
    if (edit.offset < done) continue;
    out += text.substr(done, edit.offset - done) + edit.text;
    done = edit.offset + edit.length;
  }
  return out + text.substr(done);
}

FixedScenario fix_scenario(const std::string& text, const std::string& file) {
  FixedScenario fixed{text, {}, {}};
  for (int round = 0; round < kMaxRounds; ++round) {
    try {
      static_cast<void>(load_scenario_text(fixed.text, file));
      fixed.problems.reset();
      return fixed;
    } catch (const ScenarioError& error) {
      fixed.problems = error;
    }
    Edits edits;
    for (const Problem& problem : fixed.problems->problems()) {
      if (!is_fixable(problem, file) || !edits.take(problem.fix)) continue;
      fixed.applied.push_back({problem.line, problem.column, problem.fix.message});
    }
    if (edits.all().empty()) return fixed;
    fixed.text = apply_edits(fixed.text, edits.all());
  }
  return fixed;
}

}  // namespace shardsim
