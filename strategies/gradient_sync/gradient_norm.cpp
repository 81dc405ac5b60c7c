#include "strategies/gradient_sync/gradient_norm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardsim {

namespace {

// Reduces a scalar over one axis after the other.
double over_owners(Runtime& runtime, Mesh& mesh, WeightKind kind, bool sharded, double value,
                   ReduceOp op, DType dtype, const char* label) {
  Communicator* const parts = kind == WeightKind::expert ? mesh.ep_group() : mesh.tp_group();
  Communicator* const axes[] = {sharded ? mesh.replicas(kind).shard : nullptr, parts,
                                mesh.pp_group()};
  Tensor scalar;
  for (Communicator* const axis : axes) {
    if (axis == nullptr) continue;
    if (!scalar.defined()) {
      scalar = runtime.allocate(MemoryCategory::comm, {1}, dtype);
      runtime.write_scalar(scalar, value);
    }
    axis->all_reduce(scalar, op, {.label = label, .traffic = TrafficClass::scalar}).wait();
  }
  return scalar.defined() ? runtime.read_scalar(scalar) : value;
}

// A NaN counts as infinite: a maximum would pass it over, and on some ranks only.
double larger(double a, double b) {
  return std::isnan(b) ? std::numeric_limits<double>::infinity() : std::max(a, b);
}

}  // namespace

bool is_main_copy(const ParameterSpec& spec, const MeshPlace& place) {
  return (spec.is_split() || place.tp == 0) && (!spec.tied || place.pp == 0);
}

void GradientNorm::add(int chunk, std::int64_t begin, const Tensor& values) {
  const auto add = [&](int parameter, std::int64_t, std::int64_t count, std::int64_t at) {
    const ParameterSpec& spec = plan_.model->parameters()[static_cast<std::size_t>(parameter)];
    if (!is_main_copy(spec, mesh_.place())) return;
    for (std::int64_t i = at; i < at + count; ++i) {
      const double value = values.get(i);
      own_ = type_ == NormType::two ? own_ + value * value : larger(own_, std::fabs(value));
    }
  };
  runtime_.compute(
      {"grad_norm", ComputeKind::memory_bound, values.dtype(), 0, values.num_bytes()},
      [&] { plan_.layout->for_each_piece(chunk, begin, begin + values.numel(), add); });
}

double GradientNorm::over_owners(bool sharded) {
  const ReduceOp op = type_ == NormType::two ? ReduceOp::sum : ReduceOp::max;
  const double all = shardsim::over_owners(runtime_, mesh_, plan_.kind, sharded, own_, op,
                                           DType::fp64, "grad_norm");
  return type_ == NormType::two ? std::sqrt(all) : all;
}

bool has_non_finite(Runtime& runtime, const Tensor& values) {
  bool found = false;
  const ComputeOp op{"find_inf", ComputeKind::memory_bound, values.dtype(), 0, values.num_bytes()};
  runtime.compute(op, [&] {
    for (std::int64_t i = 0; i < values.numel() && !found; ++i) {
      found = !std::isfinite(values.get(i));
    }
  });
  return found;
}

bool any_of_owners(Runtime& runtime, Mesh& mesh, WeightKind kind, bool sharded, bool found) {
  return over_owners(runtime, mesh, kind, sharded, found ? 1.0 : 0.0, ReduceOp::max, DType::fp32,
                     "found_inf") != 0.0;
}

}  // namespace shardsim
