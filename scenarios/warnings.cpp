#include "scenarios/warnings.hpp"

#include <string>

#include "scenarios/gradient_range.hpp"

namespace shardsim {
namespace {

// Bits that a type has beside the sign (IEEE 754; bf16 is the upper half of fp32).
struct Bits {
  int exponent = 0;
  int mantissa = 0;
};

Bits bits_of(Precision precision) {
  switch (precision) {
    case Precision::fp64:
      return {11, 52};
    case Precision::fp32:
      return {8, 23};
    case Precision::bf16:
      return {8, 7};
    case Precision::fp16:
      return {5, 10};
    case Precision::fp8:
      return {4, 3};
  }
  return {};
}

bool written_by_user(const FieldState& state) {
  return state.given && state.span.source != nullptr && !state.span.source->preset;
}

void warn_without_effect(Reading& r) {
  for (const Field& field : field_table()) {
    const auto state = r.fields.find(field.path);
    if (field.acts && state != r.fields.end() && written_by_user(state->second) &&
        !field.acts(r.scenario)) {
      r.scenario.warnings.push_back(field.path + " has no effect here: it acts only when " +
                                    field.acts_words);
    }
  }
}

void warn_about_precision(Reading& r) {
  const TrainingSpec& t = r.scenario.training;
  if (has_narrow_gradients(t) && t.loss_scaling == LossScalingKind::none) {
    const char* const field =
        t.precision == Precision::fp16 ? "training.precision" : "training.grad_reduce_dtype";
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

}  // namespace

void warn(Reading& reading) {
  warn_without_effect(reading);
  warn_about_precision(reading);
}

}  // namespace shardsim
