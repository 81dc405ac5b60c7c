#include "sim/kernel/diagnosis.hpp"

#include <utility>

namespace shardsim {

namespace {

// Keeps the whole report under 40 lines.
constexpr std::size_t kMaxSides = 8;
constexpr std::size_t kMaxCycleLines = 12;

std::string format_site(const CallSite& site) {
  if (*site.file == '\0') return {};
  return std::string(" at ") + site.file + ":" + std::to_string(site.line);
}

template <class Items, class Format>
void append_capped(std::string& text, const Items& items, std::size_t most, Format format) {
  for (std::size_t i = 0; i < items.size() && i < most; ++i) text += "  " + format(items[i]) + "\n";
  if (items.size() > most) text += "  ... and " + std::to_string(items.size() - most) + " more\n";
}

}  // namespace

std::string format_ranks(const std::vector<int>& ranks, std::size_t max_ranges) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (ranges++ == max_ranges) {
      return text + ",... (" + std::to_string(ranks.size()) + " ranks)";
    }
    if (!text.empty()) text += ",";
    text += std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string Diagnosis::to_text() const {
  std::string text = code + ": " + summary + "\n";
  if (!group.empty()) {
    text += "  group " + group + " (ranks " + format_ranks(members) + ")";
    if (sequence >= 0) text += ", operation #" + std::to_string(sequence);
    // Real processes have none.
    if (time > Time()) text += ", virtual time " + std::to_string(time.picoseconds()) + " ps";
    text += "\n";
  }
  append_capped(text, sides, kMaxSides, [](const DiagnosisSide& side) {
    return (side.ranks.size() == 1 ? "rank " : "ranks ") + format_ranks(side.ranks) + ": " +
           side.action + format_site(side.site);
  });
  append_capped(text, cycle, kMaxCycleLines, [](const std::string& line) { return line; });
  if (!last_matched.empty()) text += "  last matched: " + last_matched + "\n";
  if (!right.empty()) text += "  right: " + right + "\n";
  if (!compared_with.empty()) text += "  compared with: " + compared_with + "\n";
  if (!schedule.empty()) text += "  found with: " + schedule + "\n";
  if (!hint.empty()) text += "  = help: " + hint + "\n";
  if (!replay.empty()) text += "  = replay: " + replay + "\n";
  return text;
}

CommunicationError::CommunicationError(Diagnosis diagnosis)
    : Error(ExitCode::communication, diagnosis.code, diagnosis.to_text(), diagnosis.hint),
      diagnosis_(std::move(diagnosis)) {}

}  // namespace shardsim
