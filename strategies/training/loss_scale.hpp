#pragma once

#include <cstdint>

// The factor by which the loss is multiplied before backward, so that small gradients do not vanish
// in a type of narrow range, and divided out before the optimizer. Chosen too large, a gradient
// overflows; such a step is skipped. Source: Micikevicius et al., "Mixed Precision Training"
// (2018).
namespace shardsim {

struct LossScaling {
  enum class Mode : std::uint8_t {
    none,
    constant,  ///< Steps that overflow are skipped, the scale stays.
    dynamic,   ///< It also falls after overflows, and grows after many steps without.
  };
  Mode mode = Mode::none;
  /// Powers of two change no digit of a gradient that neither vanishes nor overflows.
  double initial_scale = 65536.0;  // 2^16, as torch.amp.GradScaler.
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  double minimum_scale = 1.0;           // As Megatron-LM and DeepSpeed; torch has none.
  std::int64_t growth_interval = 2000;  // As torch.amp.GradScaler; Megatron-LM and DeepSpeed: 1000.
  /// Overflows, counted since the scale last grew, from which on each of them lowers the scale.
  std::int64_t hysteresis = 1;  // torch.amp.GradScaler has none; Megatron-LM and DeepSpeed: 2.

  [[nodiscard]] bool acts() const { return mode != Mode::none; }
};

/// State that the rule carries from step to step, and a checkpoint keeps.
struct LossScaleState {
  double scale = 1.0;
  std::int64_t good_steps = 0;      ///< In a row, since the scale last grew.
  std::int64_t overflows_left = 0;  ///< Until one lowers the scale; 0 or 1: the next one.

  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

/// "none", "static" or "dynamic".
[[nodiscard]] const char* name_of(LossScaling::Mode mode);

/// Above 0, and fp32 can hold it.
[[nodiscard]] bool is_loss_scale(double scale);

/// Throws UsageError for numbers that cannot be a rule, whatever the mode.
void validate(const LossScaling& rule);

/// At the start of training. Mode none: 1.
[[nodiscard]] LossScaleState initial_state(const LossScaling& rule);

/// After a step: `found_inf`, if a gradient of any rank was infinite or NaN. As Megatron-LM's
/// DynamicGradScaler: growing takes `growth_interval` good steps in a row and makes the rule
/// patient again; good steps alone do not. The scale stays within [minimum_scale, largest fp32].
[[nodiscard]] LossScaleState next_state(const LossScaling& rule, LossScaleState state,
                                        bool found_inf);

}  // namespace shardsim
