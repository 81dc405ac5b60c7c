#include "tests/verdicts/summing_program.hpp"

#include <fmt/format.h>
#include <rapidcheck.h>

namespace shardsim::test {

namespace {

using Way = SummingProgram::Way;

const char* name_of(Way way) {
  switch (way) {
    case Way::all_reduce:
      return "all_reduce";
    case Way::reduce_scatter:
      return "reduce_scatter";
    case Way::chain:
      return "chain";
    case Way::gathered:
      break;
  }
  return "gathered";
}

double sample_of(const SummingProgram& program, const RankContext& context, std::int64_t number,
                 std::int64_t element) {
  const auto drawn = [&](std::int64_t of) {
    return context.draw("sample", of * program.elements + element);
  };
  const bool takes_away = program.rest < 1.0 && number % 2 == 1;
  return takes_away ? -drawn(number - 1) + program.rest * drawn(number) : drawn(number);
}

// The sum of this rank's samples in a step.
Tensor own_sum(const SummingProgram& program, RankContext& context, int step) {
  const std::int64_t first = program.samples * context.rank() / context.size();
  const std::int64_t last = program.samples * (context.rank() + 1) / context.size();
  const Tensor sum = context.tensor(program.elements);
  for (std::int64_t element = 0; element < program.elements; ++element) {
    double exact = 0.0;
    for (std::int64_t i = first; i < last; ++i) {
      exact += sample_of(program, context, step * program.samples + i, element);
      if (!program.adds_in_precision) continue;
      sum.set(element, exact);
      exact = sum.get(element);
    }
    sum.set(element, exact);
  }
  return sum;
}

// Leaves the sum of all ranks' sums in `sum`.
void add_along_chain(RankContext& context, const Tensor& sum) {
  Communicator& world = context.world();
  const Tensor before = context.tensor(sum.numel());
  if (context.rank() > 0) world.recv(before, context.rank() - 1).wait();
  for (std::int64_t i = 0; i < sum.numel(); ++i) sum.set(i, before.get(i) + sum.get(i));
  if (context.rank() + 1 < context.size()) world.send(sum, context.rank() + 1).wait();
  world.broadcast(sum, context.size() - 1).wait();
}

void add_gathered(RankContext& context, const Tensor& sum) {
  const Tensor parts = context.tensor(context.size() * sum.numel());
  context.world().all_gather(parts, sum).wait();
  for (std::int64_t i = 0; i < sum.numel(); ++i) {
    double all = 0.0;
    for (int rank = 0; rank < context.size(); ++rank) all += parts.get(rank * sum.numel() + i);
    sum.set(i, all);
  }
}

struct Sum {
  Tensor values;
  std::int64_t first = 0;
};

Sum sum_over_ranks(Way way, RankContext& context, const Tensor& own) {
  const bool divides = own.numel() % context.size() == 0;
  if (way == Way::reduce_scatter && divides) {
    const std::int64_t shard = own.numel() / context.size();
    const Tensor mine = context.tensor(shard);
    context.world().reduce_scatter(mine, own, ReduceOp::sum).wait();
    return {mine, context.rank() * shard};
  }
  if (way == Way::chain) {
    add_along_chain(context, own);
  } else if (way == Way::gathered) {
    add_gathered(context, own);
  } else {
    context.world().all_reduce(own, ReduceOp::sum).wait();
  }
  return {own, 0};
}

void run(const SummingProgram& program, RankContext& context) {
  constexpr double kRate = 0.25;
  Tensor weights;
  for (int step = 0; step < context.steps(); ++step) {
    const Sum gradient = sum_over_ranks(program.way, context, own_sum(program, context, step));
    const Tensor& values = gradient.values;
    if (context.size() > 1 && program.scale != 1.0) {
      for (std::int64_t i = 0; i < values.numel(); ++i) {
        values.set(i, program.scale * values.get(i));
      }
    }
    const ShowOptions where = {.first = gradient.first, .whole = program.elements, .step = step};
    context.show(Shown::gradient, "weights", values, where);
    if (step == 0) {
      weights = context.tensor(values.numel(), [&](std::int64_t i) {
        return context.draw("weight", gradient.first + i);
      });
    }
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      weights.set(i, weights.get(i) - kRate * values.get(i));
    }
    context.show(Shown::parameter, "weights", weights, where);
  }
}

}  // namespace

std::string SummingProgram::describe() const {
  return fmt::format(
      "{}, {} ranks, {} steps, {} elements, {} samples by {}, added in {}, rest {}, seed {}, scale "
      "{}",
      shardsim::name_of(precision), ranks, steps, elements, samples, name_of(way),
      adds_in_precision ? "the precision" : "double", rest, seed, scale);
}

SummingProgram draw_summing_program() {
  SummingProgram program;
  program.precision = *rc::gen::element(DType::fp32, DType::bf16, DType::fp16);
  program.ranks = *rc::gen::element(2, 3, 4, 8);
  program.steps = *rc::gen::element(1, 2);
  program.elements = *rc::gen::element<std::int64_t>(1, 2, 4, 16, 256);
  program.samples = program.ranks * *rc::gen::element<std::int64_t>(1, 2, 5);
  program.way = *rc::gen::element(Way::all_reduce, Way::reduce_scatter, Way::chain, Way::gathered);
  program.adds_in_precision = *rc::gen::arbitrary<bool>();
  program.rest = *rc::gen::element(1.0, 0.1, 0.001, 0.0);
  program.seed = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::uint64_t>(1, 1000000));
  return program;
}

CheckReport check_summing(const SummingProgram& program) {
  CheckOptions options{.name = "summing",
                       .ranks = {program.ranks},
                       .steps = program.steps,
                       .seeds = {program.seed},
                       .precision = program.precision};
  options.explore.mode = ExploreMode::none;
  return check([&](RankContext& context) { run(program, context); }, options);
}

}  // namespace shardsim::test
