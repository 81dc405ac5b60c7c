#include "sim/harness/checker.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/engine.hpp"
#include "sim/kernel/error.hpp"

#include "sim/harness/reduction_log.hpp"
#include "sim/harness/shown_state.hpp"

namespace shardsim {

namespace {

UsageError bad_options(const std::string& what, const std::string& fix) {
  return {"E1200", what, fix};
}

// Compares a number of each rank with a formula.
template <class Differs>
std::optional<Diagnosis> hold_against(const std::vector<std::int64_t>& measured,
                                      const std::function<std::int64_t(int, int)>& formula,
                                      const char* code, const char* what, const char* hint,
                                      Differs differs) {
  if (!formula) return std::nullopt;
  Diagnosis diagnosis{.code = code, .hint = hint};
  const int size = static_cast<int>(measured.size());
  for (int rank = 0; rank < size; ++rank) {
    const std::int64_t mine = measured[static_cast<std::size_t>(rank)];
    const std::int64_t wanted = formula(rank, size);
    if (!differs(mine, wanted)) continue;
    if (diagnosis.sides.empty()) {
      diagnosis.summary =
          fmt::format("rank {} {} {} bytes, by the formula {}", rank, what, mine, wanted);
      diagnosis.sides.push_back({.action = fmt::format("{} {} bytes", what, mine)});
    }
    diagnosis.sides.front().ranks.push_back(rank);
    diagnosis.members.push_back(rank);
  }
  if (diagnosis.sides.empty()) return std::nullopt;
  return diagnosis;
}

}  // namespace

std::vector<CheckPoint> points_of(const CheckOptions& options) {
  std::vector<CheckPoint> points;
  if (options.layouts.empty()) {
    for (const int ranks : options.ranks) points.push_back({.ranks = ranks});
  }
  for (const MeshShape& layout : options.layouts) {
    points.push_back({.ranks = layout.size(), .layout = static_cast<int>(points.size())});
  }
  return points;
}

Checker::Checker(const Program& program, const CheckOptions& options)
    : program_(program), options_(options) {
  if (!program) throw bad_options("there is no program to check", "give a function");
  if (options.ranks.empty() || options.seeds.empty()) {
    throw bad_options("there are no numbers of ranks, or no seeds", "give one of each at least");
  }
  for (const CheckPoint& point : points_of(options)) {
    const int ranks = point.ranks;
    if (ranks < 1 || ranks > Engine::kMaxRanks) {
      throw bad_options(fmt::format("{} ranks", ranks),
                        fmt::format("give 1 to {}", Engine::kMaxRanks));
    }
  }
  if (options.trusted && !options.trusted->program) {
    throw bad_options("the trusted reference has no program",
                      "make it with library_model or golden_files");
  }
  if (options.steps < 0 || !(options.tolerance >= 0.0)) {
    throw bad_options("steps or tolerance are below 0", "give 0 or more");
  }
  if (options.explore.schedules < 1 || options.explore.depth < 1) {
    throw bad_options("an exploration has at least one schedule and one event",
                      "use ExploreMode::none to try no schedules but the two plain ones");
  }
}

// --- Running -----------------------------------------------------------------------------------

ProgramSetting Checker::setting_of(const ReplayToken& token, DType precision) const {
  const MeshShape* const layout =
      token.layout < 0 ? nullptr : &options_.layouts.at(static_cast<std::size_t>(token.layout));
  return {.ranks = token.ranks,
          .of_ranks = {.steps = token.steps,
                       .seed = token.seed,
                       .precision = precision,
                       .layout = layout,
                       .extents = options_.extents},
          .watch = options_.watch_buffers};
}

Checker::Outcome Checker::run(const ReplayToken& token, ListChooser& chooser) {
  ++num_runs_;
  ProgramRun made =
      run_program(program_, setting_of(token, options_.precision), token.schedule, chooser);
  note_warnings(made.warnings);
  std::optional<Diagnosis> failure = std::move(made.failure);
  if (!failure) failure = judge_run(token, made, chooser);
  return {.failure = std::move(failure),
          .decisions = chooser.decisions(),
          .suspicions = std::move(made.suspicions)};
}

Checker::Outcome Checker::replay(const ReplayToken& token) {
  ListChooser chooser(token.schedule.decisions);
  return run(token, chooser);
}

std::optional<Diagnosis> Checker::verdict(const ReplayToken& token) {
  Outcome outcome = replay(token);
  if (!outcome.failure) return std::nullopt;
  return classify(token, std::move(outcome));
}

void Checker::note_warnings(const std::vector<Diagnosis>& warnings) {
  for (const Diagnosis& warning : warnings) {
    const bool known = std::ranges::any_of(warnings_, [&](const Diagnosis& other) {
      return other.code == warning.code && other.group == warning.group;
    });
    if (!known) warnings_.push_back(warning);
  }
}

// --- Judging -----------------------------------------------------------------------------------

std::optional<Diagnosis> Checker::judge_run(const ReplayToken& token, const ProgramRun& run,
                                            ListChooser& chooser) {
  std::optional<Diagnosis> found =
      hold_against(run.bytes_sent, options_.bytes_sent, "BYTES_DIFF", "sends",
                   "look for calls that are missing, repeated, or larger than needed",
                   [](std::int64_t mine, std::int64_t wanted) { return mine != wanted; });
  if (found) return found;
  found = hold_against(run.peak_bytes, options_.peak_bytes, "MEMORY_OVER", "uses",
                       "look for buffers that live longer than they are needed",
                       [](std::int64_t mine, std::int64_t wanted) { return mine > wanted; });
  if (found) return found;
  found = judge_shown(token, run.shown, options_.precision, chooser);
  if (!found || options_.precision == DType::fp64 || !right_in_fp64(token, chooser)) return found;
  found->code = "PRECISION";
  found->summary +=
      fmt::format(": more than the noise of {}; in fp64 it is right", name_of(options_.precision));
  found->hint = "sum in fp32 and round once, or reduce in another order";
  return found;
}

bool Checker::right_in_fp64(const ReplayToken& token, const ListChooser& chooser) {
  ListChooser same(chooser.taken());
  ++num_runs_;
  const ProgramRun exact =
      run_program(program_, setting_of(token, DType::fp64), token.schedule, same);
  return !exact.failure && !judge_shown(token, exact.shown, DType::fp64, same);
}

std::optional<Diagnosis> Checker::judge_shown(const ReplayToken& token, const ShownState& shown,
                                              DType precision, const ListChooser& chooser) {
  if (shown.pieces().empty() && !shows_on_one_rank(token)) return std::nullopt;
  JudgeOptions how{.tolerance = options_.tolerance, .precision = precision};
  if (precision != DType::fp64) {
    how.exact = &reference(token, DType::fp64);
    how.noise = [&](const ShownTensor& tensor) { return noise(token, chooser).of(tensor); };
  }
  std::optional<ReductionLog> reductions;
  how.reductions = [&]() -> const ReductionLog* {
    if (!reductions) {
      reductions.emplace();
      ProgramSetting setting = setting_of(token, precision);
      setting.reductions = &*reductions;
      ListChooser same(chooser.taken());
      ++num_runs_;
      static_cast<void>(run_program(program_, setting, token.schedule, same));
    }
    return &*reductions;
  };
  std::optional<Diagnosis> found = judge(shown, reference(token, precision), how);
  if (found) found->compared_with = compared_with();
  return found;
}

const ProgramNoise& Checker::noise(const ReplayToken& token, const ListChooser& chooser) {
  const std::tuple key(token.seed, token.steps, token.ranks, token.layout);
  const auto known = noises_.find(key);
  if (known != noises_.end()) return known->second;
  const auto shown_by = [](ProgramRun run) {
    return run.failure ? ShownState() : std::move(run.shown);
  };
  const auto program_in = [&](DType precision) {
    ListChooser same(chooser.taken());
    return shown_by(run_program(program_, setting_of(token, precision), token.schedule, same));
  };
  const ProgramNoise::Runs runs = {
      .program = [&] { return program_in(options_.precision); },
      .program_in_fp64 = [&] { return program_in(DType::fp64); },
      .reference = [&] { return shown_by(run_reference(token, options_.precision)); }};
  return noises_.emplace(key, ProgramNoise(runs, token.ranks, reference(token, DType::fp64)))
      .first->second;
}

// Whether there is a reference to compare with. A bare protocol shows nothing, and may not even run
// on one rank.
bool Checker::shows_on_one_rank(const ReplayToken& token) {
  if (options_.reference || options_.trusted) return true;
  try {
    return !reference(token, DType::fp64).pieces().empty();
  } catch (const CommunicationError&) {
    return false;
  }
}

ProgramRun Checker::run_alone(const Program& program, const ReplayToken& token,
                              DType precision) const {
  ReplayToken alone = token;
  alone.ranks = 1;
  alone.layout = -1;
  ListChooser chooser;
  return run_program(program, setting_of(alone, precision), {}, chooser);
}

// The tensors of the trusted reference, and all others of the usual one.
ProgramRun Checker::run_reference(const ReplayToken& token, DType precision) const {
  ProgramRun usual =
      run_alone(options_.reference ? options_.reference : program_, token, precision);
  if (!options_.trusted) return usual;
  ProgramRun trusted = run_alone(options_.trusted->program, token, precision);
  // A program that cannot run on one rank is compared with these alone.
  if (trusted.failure || usual.failure) return trusted;
  usual.shown.replace_by(trusted.shown);
  return usual;
}

std::string Checker::compared_with() const {
  std::size_t tensors = 0;
  std::size_t trusted = 0;
  for (const auto& [_, shown] : references_) {
    tensors = std::max(tensors, shown.num_tensors());
    trusted = std::max(trusted, shown.num_replaced());
  }
  if (tensors == 0) return "nothing - the program shows no numbers";
  const std::string usual =
      options_.reference ? "the given reference, on 1 rank"
                         : "the program itself on 1 rank - a mistake that it shares is not seen";
  if (trusted == 0) return usual;
  if (trusted == tensors) return options_.trusted->words;
  return fmt::format("{} ({} of {} tensors); the others with {}", options_.trusted->words, trusted,
                     tensors, usual);
}

const ShownState& Checker::reference(const ReplayToken& token, DType precision) {
  const auto [place, is_new] =
      references_.try_emplace({token.seed, token.steps, precision}, ShownState());
  if (!is_new) return place->second;
  ProgramRun run = run_reference(token, precision);
  if (run.failure) {
    references_.erase(place);
    run.failure->summary = "the reference, on one rank: " + run.failure->summary;
    throw CommunicationError(*std::move(run.failure));
  }
  place->second = std::move(run.shown);
  return place->second;
}

// --- Naming ------------------------------------------------------------------------------------

Diagnosis Checker::classify(const ReplayToken& token, Outcome outcome) {
  Diagnosis failure = *std::move(outcome.failure);
  if (std::optional<Diagnosis> read = find_early_read(token, failure)) return *std::move(read);
  if (std::optional<Diagnosis> race = find_race(token, failure)) return *std::move(race);
  if (failure.code == "DEADLOCK" && token.schedule.sends != SendMode::buffered) {
    ReplayToken buffered = token;
    buffered.schedule.sends = SendMode::buffered;
    if (!replay(buffered).failure) {
      failure.code = "BUFFER_HAZARD";
      failure.summary += "; with buffered sends it does not hang";
      return failure;
    }
  }
  std::optional<Diagnosis> blamed = find_culprit(token, outcome.suspicions);
  return blamed ? *std::move(blamed) : failure;
}

}  // namespace shardsim
