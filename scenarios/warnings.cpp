#include "scenarios/warnings.hpp"

#include <array>
#include <charconv>
#include <string>

#include "scenarios/gradient_range.hpp"
#include "scenarios/stage_places.hpp"

namespace shardsim {
namespace {

// Bits that a type has beside the sign (IEEE 754; bf16 is the upper half of fp32).
struct Bits {
  int exponent = 0;
  int mantissa = 0;
};

Bits bits_of(DType precision) {
  switch (precision) {
    case DType::fp64:
      return {11, 52};
    case DType::fp32:
      return {8, 23};
    case DType::bf16:
      return {8, 7};
    case DType::fp16:
      return {5, 10};
    case DType::fp8_e4m3:
      return {4, 3};
    default:
      return {};
  }
}

void warn_without_effect(Reading& r) {
  for (const std::string& path : r.scenario.chosen) {
    const Field& field = *find_field(path);
    std::string& warning = r.scenario.warnings.emplace_back(path + " has no effect here: ");
    if (field.acts && !field.acts(r.scenario)) {
      warning += "it acts only when " + field.acts_words;
    } else if (field.derives_only) {
      warning += "the result is the same without it";
    } else {
      r.scenario.warnings.pop_back();  // The run reports it.
    }
  }
}

void warn_about_precision(Reading& r) {
  const TrainingSpec& t = r.scenario.training;
  if (has_narrow_gradients(t) && t.loss_scaling == LossScaling::Mode::none) {
    const char* const field =
        t.precision == DType::fp16 ? "training.precision" : "training.grad_reduce_dtype";
    r.scenario.warnings.push_back(
        std::string(field) +
        " is fp16, and training runs without loss scaling: small gradients become 0, large ones "
        "infinite; leave training.loss_scaling out, or use bf16");
  }
  const Bits own = bits_of(t.precision);
  const Bits reduced = bits_of(t.grad_reduce_dtype);
  const std::string names = std::string("training.grad_reduce_dtype is ") +
                            to_string(t.grad_reduce_dtype) + ", and gradients are " +
                            to_string(t.precision) + ": ";
  if (reduced.exponent < own.exponent) {
    r.scenario.warnings.push_back(names + "what is beyond its range is lost before the reduction");
  } else if (reduced.mantissa < own.mantissa) {
    r.scenario.warnings.push_back(names + "digits are lost before the reduction");
  }
}

// People easily forget that another field sets the number of chunks.
void warn_about_chunks(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ScheduleRow& schedule = schedule_row_of(p.schedule);
  if (!schedule.takes_chunks() || p.vpp > 1) return;
  r.scenario.warnings.push_back(
      "parallelism.schedule is " + p.schedule +
      ", which idles less by running several model chunks per rank, but parallelism.vpp is 1: " +
      std::string(schedule.with_one_chunk) + "; set parallelism.vpp to 2 or more");
}

// No score depends on the bias of a key, so its gradient is rounding around zero. If weight decay
// is added to the gradient, a step multiplies so small a bias by 1 - learning_rate * weight_decay /
// epsilon. Beyond -1, rounding grows from step to step until it is as large as any update. (Adam's
// momentum only dampens that at first.) The oracle's reference starts each step from the ranks'
// state, which prevents harm. References of other algorithms do not.
void warn_about_decay(Reading& r) {
  const TrainingSpec& t = r.scenario.training;
  const bool decays_gradient =
      t.optimizer == OptimizerKind::adam || t.optimizer == OptimizerKind::rmsprop;
  const double decay = t.learning_rate * t.weight_decay;
  if (r.scenario.model.family != ModelFamily::gpt2 || !decays_gradient ||
      !r.scenario.parallelism.changes_algorithm() ||
      r.scenario.execution.tensors != TensorMode::real || decay <= 2 * t.epsilon) {
    return;
  }
  std::array<char, 32> cure{};  // Far from the limit, so that a few digits will do.
  const auto end =
      std::to_chars(cure.data(), cure.data() + cure.size(), decay, std::chars_format::general, 3);
  r.scenario.warnings.push_back(
      "training.weight_decay is part of the gradient in " + std::string(to_string(t.optimizer)) +
      ", and that of a key's bias in gpt2 is else nothing but rounding, which steps of "
      "learning_rate x weight_decay / epsilon above 2 blow up from step to step: with this data "
      "parallelism "
      "the oracle then fails a correct strategy; use adamw, no training.weight_decay, or "
      "training.epsilon=" +
      std::string(cure.data(), end.ptr));
}

// A plan reports the times of the last step, and steps of replicas that train apart are not all
// alike.
void warn_about_period(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const std::int64_t steps = r.scenario.execution.steps;
  const bool is_plan = r.scenario.execution.tensors == TensorMode::meta;
  if (!p.trains_apart() || !is_plan || steps % p.sync_period == 0) return;
  r.scenario.warnings.push_back(
      "execution.steps (" + std::to_string(steps) +
      ") ends no period of parallelism.sync_period (" + std::to_string(p.sync_period) +
      "): the times reported are those of the last step, in which replicas average nothing; "
      "use a multiple to see what averaging costs");
}

// Each rank's share goes to all others, while an all_reduce of n bytes sends less than 2 n.
void warn_about_compression(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (p.compression.kind != CompressionKind::top_k || p.data_parallel_size() == 1) return;
  const auto ranks = static_cast<double>(p.data_parallel_size());
  const Bits bits = bits_of(r.scenario.training.grad_reduce_dtype);
  const double element = (1 + bits.exponent + bits.mantissa) / 8.0;
  const double index = 4.0;
  const double compressed = (ranks - 1.0) * p.compression.ratio * (element + index);
  const double whole = 2.0 * (ranks - 1.0) / ranks * element;
  if (compressed < whole) return;
  std::array<char, 32> times{};
  const auto end = std::to_chars(times.data(), times.data() + times.size(), compressed / whole,
                                 std::chars_format::general, 3);
  r.scenario.warnings.push_back(
      "parallelism.gradient_compression top_k saves nothing here: its shares, which every rank "
      "sends to all of " +
      std::to_string(p.data_parallel_size()) + ", are " + std::string(times.data(), end.ptr) +
      " times the bytes of whole gradients; use a smaller compression_ratio, or int8");
}

}  // namespace

void warn(Reading& reading) {
  warn_without_effect(reading);
  warn_about_chunks(reading);
  warn_about_precision(reading);
  warn_about_decay(reading);
  warn_about_period(reading);
  warn_about_compression(reading);
}

}  // namespace shardsim
