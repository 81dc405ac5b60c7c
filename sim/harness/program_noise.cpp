#include "sim/harness/program_noise.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/last_bit_errors.hpp"
#include "backends/stochastic_rounding.hpp"

#include "sim/harness/rounding_error.hpp"

namespace shardsim {

namespace {

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
