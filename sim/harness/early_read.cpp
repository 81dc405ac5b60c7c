#include <algorithm>
#include <optional>
#include <string_view>

#include "sim/harness/checker.hpp"

// Reads of buffers in flight by pointers, which nobody sees. Such a buffer holds a pattern. If the
// run ends otherwise with what the buffer holds after its wait, a rank has read it. The first
// buffer for which that is so is the one.
namespace shardsim {

namespace {

// Whether what ranks compute may be the cause.
bool may_come_from_numbers(const Diagnosis& failure) {
  static constexpr std::string_view kOthers[] = {
      "BUF_",     "GROUP_",        "REQ_LEAK",      "COLL_ORDER", "COLL_MISSING",
      "DEADLOCK", "BUFFER_HAZARD", "P2P_UNMATCHED", "P2P_TAG",    "COLL_LABEL"};
  return std::ranges::none_of(
      kOthers, [&](std::string_view code) { return failure.code.rfind(code, 0) == 0; });
}

bool same_number(double a, double b) { return a == b || (a != a && b != b); }

// Whether ranks have made the same calls, shown the same and failed alike.
bool same_end(const ProgramRun& a, const ProgramRun& b) {
  if (a.trace_hash != b.trace_hash || a.failure.has_value() != b.failure.has_value()) return false;
  if (a.failure && (a.failure->code != b.failure->code || a.failure->summary != b.failure->summary))
    return false;
  return std::ranges::equal(a.shown.pieces(), b.shown.pieces(),
                            [](const ShownState::Piece& one, const ShownState::Piece& other) {
                              return std::ranges::equal(one.values, other.values, same_number);
                            });
}

}  // namespace

std::optional<Diagnosis> Checker::find_early_read(const ReplayToken& token,
                                                  const Diagnosis& failure) {
  if (!options_.watch_buffers || !may_come_from_numbers(failure)) return std::nullopt;
  const auto run = [&](BufferWatch::Variation variation) {
    ProgramSetting setting = setting_of(token, options_.precision);
    setting.variation = variation;
    ListChooser chooser(token.schedule.decisions);
    ++num_runs_;
    return run_program(program_, setting, token.schedule, chooser);
  };
  BufferWatch::Contents contents;
  const ProgramRun plain = run({.to = &contents});
  std::int64_t most = plain.buffer_uses;
  // A program that does not do the same twice tells nothing.
  if (most == 0 || !same_end(plain, run({.number = 0, .from = &contents}))) return std::nullopt;
  if (same_end(plain, run({.number = most, .from = &contents}))) return std::nullopt;
  std::int64_t least = 0;  // So many make no difference.
  while (most - least > 1) {
    const std::int64_t middle = least + (most - least) / 2;
    const bool same = same_end(plain, run({.number = middle, .from = &contents}));
    (same ? least : most) = middle;
  }
  std::optional<Diagnosis> read = run({.number = most, .from = &contents}).last_varied;
  if (!read) return std::nullopt;
  read->summary += ", and what it computes depends on that; the run ends with " + failure.code;
  return read;
}

}  // namespace shardsim
