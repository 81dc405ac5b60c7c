#include "sim/harness/program_run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/fiber/fiber_world.hpp"
#include "backends/last_bit_errors.hpp"
#include "backends/stochastic_rounding.hpp"

#include "sim/harness/reduction_log.hpp"
#include "sim/harness/rounding_error.hpp"

namespace shardsim {

namespace {

FiberOptions options_of(const ProgramSetting& setting, const Schedule& schedule,
                        MessageChooser& chooser) {
  return {.cluster = check_cluster(setting.ranks),
          .has_data = setting.has_data,
          .buffered_sends = schedule.sends == SendMode::buffered,
          .drawn_sends = schedule.sends == SendMode::drawn ? schedule.seed : 0,
          .watch = setting.watch,
          .variation = setting.variation,
          .chooser = &chooser,
          .interleaving_seed = schedule.seed,
          .draw_launches = true,
          .repairs = setting.repairs};
}

Diagnosis diagnosis_of(const RankFailed& failed, const FiberWorld& world) {
  std::vector<DiagnosisSide> sides = {
      {.ranks = {failed.rank()}, .action = "threw " + failed.code(), .site = {}}};
  for (const DiagnosisSide& side : world.waiting()) sides.push_back(side);
  return {.code = "RANK_FAILED",
          .summary = failed.what(),
          .members = {failed.rank()},
          .time = world.engine().rank(failed.rank()).now(),
          .sides = std::move(sides),
          .hint = failed.fix().empty()
                      ? "fix the exception of this rank; the others only wait for it"
                      : failed.fix()};
}

std::vector<std::pair<std::string, int>> groups_of(const FiberWorld& world) {
  std::vector<std::pair<std::string, int>> groups;
  for (const FiberGroup& group : world.groups()) {
    const std::pair<std::string, int> mine(group.name(), group.size());
    if (std::ranges::find(groups, mine) == groups.end()) groups.push_back(mine);
  }
  return groups;
}

// --- Rounding noise ----------------------------------------------------------------------------

// Two decisive errors have the same sign in all draws once in 2^32.
constexpr std::uint64_t kNumDraws = 32;
// Copies have one draw for each rank, up to this many.
constexpr int kMostSenders = 32;
// A last bit is two roundings' worth.
constexpr double kRoundingsOfLastBit = 2.0;
// A term is rounded where it is computed, and the sum once more where it is added.
constexpr double kRoundingsOfTerm = 2.0;
// So many successive roundings, as along a ring, are no fault of a program.
constexpr double kHops = 10.0;

// Values of the same tensor elsewhere; empty if there are none, or others.
std::vector<double> values_in(const ShownTable& table, const ShownTensor& tensor) {
  const ShownTensor* const found = table.find(tensor, tensor.step);
  if (found == nullptr || found->whole() != tensor.whole()) return {};
  return found->values();
}

template <class Visit>
void for_each_draw(const ShownState& plain, const std::vector<ShownState>& drawn,
                   const ShownTensor& tensor, const Visit& visit) {
  const ShownTable plain_table(plain, plain);
  const std::vector<double> wanted = values_in(plain_table, tensor);
  for (const ShownState& state : drawn) {
    const std::vector<double> values = values_in(ShownTable(state, plain), tensor);
    if (!wanted.empty() && values.size() == wanted.size()) visit(values, wanted);
  }
}

}  // namespace

// --- Choosing ----------------------------------------------------------------------------------

std::size_t ListChooser::choose(std::span<const MessageChoice> candidates) {
  if (candidates.size() == 1) return 0;
  const std::size_t number = decisions_.size();
  // The list of another program may ask for a choice that does not exist.
  const std::size_t taken = number < list_.size()
                                ? std::min<std::size_t>(list_[number], candidates.size() - 1)
                                : decide(number, candidates);
  decisions_.push_back({.taken = static_cast<std::uint16_t>(taken),
                        .choices = {candidates.begin(), candidates.end()}});
  return taken;
}

std::size_t ListChooser::decide(std::size_t, std::span<const MessageChoice> candidates) {
  const auto first = std::ranges::min_element(candidates, {}, &MessageChoice::time);
  return static_cast<std::size_t>(first - candidates.begin());
}

std::vector<std::uint16_t> ListChooser::taken() const {
  std::vector<std::uint16_t> taken;
  for (const Decision& decision : decisions_) taken.push_back(decision.taken);
  return taken;
}

// --- Running -----------------------------------------------------------------------------------

// One node. All its numbers are round, so that times in reports are.
Cluster check_cluster(int ranks) {
  Cluster cluster;
  cluster.name = "check";
  cluster.gpus_per_node = ranks;
  cluster.intra_node = cluster.inter_node = {.bytes_per_s = 1e11, .latency_s = 1e-6};
  cluster.device.name = "check";
  cluster.device.memory_bytes = std::int64_t{1} << 40;
  cluster.device.memory_bytes_per_s = 1e12;
  cluster.device.peak_flops_per_s.fill(1e14);
  return cluster;
}

ProgramRun run_program(const Program& program, const ProgramSetting& setting,
                       const Schedule& schedule, MessageChooser& chooser) {
  ProgramRun run;
  FiberWorld world(options_of(setting, schedule, chooser));
  try {
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const std::unique_ptr<TaggedMessages> messages = everyone.tagged_messages();
      std::optional<LoggingCommunicator> logging;
      if (setting.reductions != nullptr) logging.emplace(everyone, *setting.reductions);
      Communicator& all = logging ? *logging : everyone;
      RankContext context(runtime, all, *messages, setting.of_ranks, run.shown);
      program(context);
    });
  } catch (const CommunicationError& error) {
    run.failure = error.diagnosis();
  } catch (const RankFailed& failed) {
    run.failure = diagnosis_of(failed, world);
  }
  run.suspicions = world.suspicions();
  if (const BufferWatch* const watch = world.buffer_watch()) {
    run.buffer_uses = watch->num_uses();
    run.last_varied = watch->last_varied();
  }
  run.warnings = world.warnings();
  run.shown.set_groups(groups_of(world));
  run.trace_hash = world.engine().trace_hash();
  run.bytes_sent = world.sent_by_rank();
  for (int rank = 0; rank < setting.ranks; ++rank) {
    run.peak_bytes.push_back(world.engine().rank(rank).ledger().peak());
  }
  return run;
}

// --- Rounding noise ----------------------------------------------------------------------------

ProgramNoise::ProgramNoise(const Runs& runs, int ranks, const ShownState& exact) {
  own_.plain = exact;
  terms_.plain = runs.program();
  copies_.plain = terms_.plain;
  CountsSent counts;
  {
    CountsWatch watch(counts);
    static_cast<void>(runs.program_in_fp64());
  }
  for (std::uint64_t draw = 0; draw < kNumDraws; ++draw) {
    {
      const StochasticRounding errors(draw);
      own_.drawn.push_back(runs.reference());
    }
    const LastBitErrors errors(draw, counts);
    terms_.drawn.push_back(runs.program());
  }
  for (int rank = 0; rank < std::min(ranks, kMostSenders); ++rank) {
    const LastBitErrors errors(0, counts, rank);
    copies_.drawn.push_back(runs.program());
  }
}

double ProgramNoise::bound_of(const Draws& draws, const ShownTensor& tensor) {
  DrawnErrors errors;
  for_each_draw(draws.plain, draws.drawn, tensor, [&](const auto& values, const auto& wanted) {
    errors.add(largest_error(values, wanted));
  });
  return errors.bound();
}

double ProgramNoise::largest_of(const Draws& draws, const ShownTensor& tensor) {
  double most = 0.0;
  for_each_draw(draws.plain, draws.drawn, tensor, [&](const auto& values, const auto& wanted) {
    most = std::max(most, largest_error(values, wanted));
  });
  return most;
}

double ProgramNoise::of(const ShownTensor& tensor) const {
  const double own = bound_of(own_, tensor) / std::sqrt(StochasticRounding::kVarianceFromExact);
  const double terms = std::sqrt(kRoundingsOfTerm) / kRoundingsOfLastBit * bound_of(terms_, tensor);
  const double copies = kHops / kRoundingsOfLastBit * largest_of(copies_, tensor);
  return std::hypot(own, terms, copies);
}

}  // namespace shardsim
