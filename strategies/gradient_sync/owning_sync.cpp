#include "strategies/gradient_sync/owning_sync.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "strategies/gradient_sync/whole_state.hpp"

namespace shardsim {

namespace {

// A NaN counts as infinite: a maximum would pass it over, and on some ranks only.
double larger(double a, double b) {
  return std::isnan(b) ? std::numeric_limits<double>::infinity() : std::max(a, b);
}

// Whether an element is infinite or NaN; read as one memory-bound operation. False without data.
bool has_non_finite(Runtime& runtime, const Tensor& values) {
  bool found = false;
  runtime.compute(memory_op("find_inf", values.dtype(), values.num_bytes()), [&] {
    for (std::int64_t i = 0; i < values.numel() && !found; ++i) {
      found = !std::isfinite(values.get(i));
    }
  });
  return found;
}

}  // namespace

void OwningSync::initialize() {
  for (int chunk = 0; chunk < num_chunks(); ++chunk) {
    const auto [begin, values] = held_weights(chunk);
    owned_.initialize(chunk, begin, values);
  }
  owned_.initialize_master();
}

// Reduces a scalar over one axis of ranks that own different gradients after the other: the shards,
// the tensor-parallel ranks (of experts: those with other parts of them) and the stages. Posts one
// scalar on each axis of more than one rank.
double OwningSync::over_owners(double value, ReduceOp op, DType dtype, const char* label) {
  Communicator* const parts =
      plan_.kind == WeightKind::expert ? mesh_.expert_parts_group() : mesh_.tp_group();
  Communicator* const axes[] = {sharded_ ? mesh_.replicas(plan_.kind).shard : nullptr, parts,
                                mesh_.pp_group()};
  Tensor scalar;
  for (Communicator* const axis : axes) {
    if (axis == nullptr) continue;
    if (!scalar.defined()) {
      scalar = runtime_.allocate(MemoryCategory::comm, {1}, dtype);
      runtime_.write_scalar(scalar, value);
    }
    axis->all_reduce(scalar, op, {.label = label, .traffic = TrafficClass::scalar}).wait();
  }
  return scalar.defined() ? runtime_.read_scalar(scalar) : value;
}

bool OwningSync::found_inf() {
  bool found = false;
  for (int chunk = 0; chunk < num_chunks(); ++chunk) {
    // Every chunk is read, whatever was found before.
    if (has_non_finite(runtime_, gradient_of(chunk).tensor())) found = true;
  }
  return over_owners(found ? 1.0 : 0.0, ReduceOp::max, DType::fp32, "found_inf") != 0.0;
}

double OwningSync::gradient_norm(NormType type) {
  double own = 0.0;  // The sum of squares, or the largest |x|.
  for (int chunk = 0; chunk < num_chunks(); ++chunk) {
    const OnDevice gradient = gradient_of(chunk);
    const Tensor& values = gradient.tensor();
    const auto add = [&](int parameter, std::int64_t, std::int64_t count, std::int64_t at) {
      const ParameterSpec& spec = spec_of(*plan_.model, parameter);
      if (!is_main_copy(spec, mesh_.place())) return;
      for (std::int64_t i = at; i < at + count; ++i) {
        const double value = values.get(i);
        own = type == NormType::two ? own + value * value : larger(own, std::fabs(value));
      }
    };
    const std::int64_t begin = owned_.begin(chunk);
    runtime_.compute(memory_op("grad_norm", values.dtype(), values.num_bytes()), [&] {
      plan_.layout->for_each_piece(chunk, begin, begin + values.numel(), add);
    });
  }
  const ReduceOp op = type == NormType::two ? ReduceOp::sum : ReduceOp::max;
  const double all = over_owners(own, op, DType::fp64, "grad_norm");
  return type == NormType::two ? std::sqrt(all) : all;
}

void OwningSync::visit(StateKind kind, const StateVisitor& visitor) const {
  if (kind == StateKind::optimizer_state) return owned_.visit(visitor);
  if (kind == StateKind::gradient && !has_gradients()) return;
  for (int chunk = 0; chunk < num_chunks(); ++chunk) {
    if (kind == StateKind::rank_state) {
      for (const Residual& residual : reducer_->residuals(chunk)) {
        owned_.visit_values(kind, residual.name, chunk, residual.begin, residual.values, visitor);
      }
    } else if (kind == StateKind::parameter) {
      const auto [begin, values] = held_weights(chunk);
      owned_.visit_values(kind, {}, chunk, begin, values, visitor);
    } else {
      owned_.visit_values(kind, {}, chunk, owned_.begin(chunk), reducer_->owned(chunk), visitor);
    }
  }
}

}  // namespace shardsim
