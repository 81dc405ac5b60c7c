#include "strategies/model/delayed_scales.hpp"

#include <algorithm>
#include <cmath>

#include "sim/kernel/error.hpp"

#include "strategies/model/block_scales.hpp"
#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

constexpr std::array kKinds = {OperandKind::input, OperandKind::weight, OperandKind::gradient};

AmaxEnd end_of(OperandKind kind, const LowPrecision& low) {
  if (low.amax_update == AmaxUpdate::step || kind == OperandKind::weight) return AmaxEnd::step;
  return kind == OperandKind::input ? AmaxEnd::forward : AmaxEnd::backward;
}

void agree_over(Communicator* group, const Tensor& largest) {
  if (group == nullptr) return;
  group
      ->all_reduce(largest, ReduceOp::max,
                   {.label = "largest elements", .traffic = TrafficClass::scalar})
      .wait();
}

// Operands of products in low precision. A router is its branch's first parameter, and so has the
// branch's input.
bool is_operand(const ParameterSpec& spec, OperandKind kind) {
  return spec.low != nullptr || (spec.is_never_quantized && kind == OperandKind::input);
}

}  // namespace

void DelayedScales::begin(Runtime& runtime, std::span<const ParameterSpec> parameters) {
  if (!sets_.empty()) return;
  for (const ParameterSpec& spec : parameters) {
    for (const OperandKind kind : kKinds) add(spec, kind);
  }
  for (Set& set : sets_) {
    const auto allocate = [&](const Shape& shape) {
      return runtime.allocate(MemoryCategory::params, shape, DType::fp32);
    };
    set.largest = allocate({set.size});
    set.history = allocate({set.size, low_.amax_history_len});
    set.multipliers = allocate({set.size});
    runtime.off_the_clock([&] {
      for (std::int64_t i = 0; i < set.size; ++i) set.multipliers.set(i, 1.0);
    });
  }
}

void DelayedScales::add(const ParameterSpec& spec, OperandKind kind) {
  if (!is_operand(spec, kind)) {
    places_.push_back({});
    return;
  }
  const AmaxEnd end = end_of(kind, low_);
  const int chunk = end == AmaxEnd::step ? 0 : spec.chunk;
  const auto same = [&](const Set& set) {
    return set.end == end && set.chunk == chunk && set.is_expert == spec.expert;
  };
  auto found = std::ranges::find_if(sets_, same);
  if (found == sets_.end()) {
    sets_.push_back({.end = end, .chunk = chunk, .is_expert = spec.expert});
    found = sets_.end() - 1;
  }
  const Place place{static_cast<std::size_t>(found - sets_.begin()), found->size,
                    spec.expert ? spec.shape[0] : 1};
  places_.push_back(place);
  found->size += place.matrices;
  const Operand operand = kind == OperandKind::gradient ? Operand::gradient : Operand::value;
  found->formats.resize(to_size(found->size), &format_of(ScalingRecipe::delayed, operand));
}

const DelayedScales::Place& DelayedScales::place_of(const OperandSite& site) const {
  const Place& place =
      places_[to_size(site.parameter) * kKinds.size() + static_cast<std::size_t>(site.kind)];
  if (place.matrices > 0) return place;
  throw Error(ExitCode::internal, "E7019", "an operand in low precision has no scale of its past");
}

float DelayedScales::multiplier(const OperandSite& site, std::int64_t matrix) const {
  const Place& place = place_of(site);
  return static_cast<float>(sets_[place.set].multipliers.get(place.first + matrix));
}

void DelayedScales::saw(const OperandSite& site, std::int64_t matrix, float largest) {
  const Place& place = place_of(site);
  const Tensor& of_step = sets_[place.set].largest;
  const double before = of_step.get(place.first + matrix);
  of_step.set(place.first + matrix, std::max(before, static_cast<double>(largest)));
}

void DelayedScales::finish(Runtime& runtime, AmaxEnd end, int chunk, const Groups& dense,
                           const Groups& experts) {
  for (const Set& set : sets_) {
    if (set.end != end || (end != AmaxEnd::step && set.chunk != chunk)) continue;
    const Groups& groups = set.is_expert ? experts : dense;
    agree_over(groups.parts, set.largest);
    agree_over(groups.replicas, set.largest);
    advance(runtime, set);
  }
}

// A tensor without any element but zeros keeps its scale.
void DelayedScales::advance(Runtime& runtime, const Set& set) const {
  const std::int64_t bytes = 2 * (set.history.num_bytes() + set.largest.num_bytes());
  runtime.compute(memory_op("update_scales", DType::fp32, bytes), [&] {
    const std::int64_t length = last_dim(set.history);
    const bool takes_most = low_.amax_compute == AmaxCompute::max;
    for (std::int64_t i = 0; i < set.size; ++i) {
      const Tensor past = set.history.view(i * length, {length});
      for (std::int64_t j = length - 1; j > 0; --j) past.set(j, past.get(j - 1));
      past.set(0, set.largest.get(i));
      set.largest.set(i, 0.0);
      double most = past.get(0);
      for (std::int64_t j = 1; takes_most && j < length; ++j) most = std::max(most, past.get(j));
      if (!(most > 0.0) || !std::isfinite(most)) continue;
      const float multiplier = multiplier_of(
          static_cast<float>(most), row_of(ScalingRecipe::delayed), *set.formats[to_size(i)]);
      set.multipliers.set(i, static_cast<double>(multiplier));
    }
  });
}

std::vector<DelayedScales::Held> DelayedScales::held() const {
  std::vector<Held> held;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.matrices == 0) continue;
    const Set& set = sets_[place.set];
    const std::int64_t length = last_dim(set.history);
    held.push_back({{static_cast<int>(i / kKinds.size()), kKinds[i % kKinds.size()]},
                    set.history.view(place.first * length, {place.matrices, length}),
                    set.multipliers.view(place.first, {place.matrices})});
  }
  return held;
}

}  // namespace shardsim
