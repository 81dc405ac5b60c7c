#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "scenarios/formats/emit_flags.hpp"
#include "scenarios/formats/megatron.hpp"
#include "scenarios/scenario.hpp"

// How Megatron-LM sends tokens to experts of other ranks.
namespace shardsim {

namespace {

// Both ways to experts in 8 bits, or none.
void import_payload(MegatronArguments& arguments, Import& import) {
  const std::string forward = arguments.text("moe_dispatch_fwd_dtype").value_or("bf16");
  const std::string backward = arguments.text("moe_combine_bwd_dtype").value_or("bf16");
  const ForeignValue both = {"moe_dispatch_fwd_dtype, moe_combine_bwd_dtype",
                             fmt::format("{}, {}", forward, backward)};
  if (forward == "mxfp8" && backward == "mxfp8") {
    import.take(both, "parallelism.expert_payload", forward);
  } else if (forward != "bf16" || backward != "bf16") {
    import.warn(both,
                "tokens and gradients of their outputs travel alike here: in the type of the "
                "training");
  }
}

}  // namespace

// Megatron-LM's default gathers the tokens of all ranks on each.
void import_megatron_dispatch(MegatronArguments& arguments, std::int64_t ep, Import& import) {
  if (ep == 1 || !import.has(megatron::kExperts.ours)) return;
  constexpr const char* kType = "moe_token_dispatcher_type";
  const std::string type = arguments.text(kType).value_or("allgather");
  const bool has_rows_of_experts = import.has("model.moe_capacity_factor") ||
                                   import.has("model.moe_weight_on_input") ||
                                   (import.has(megatron::kExpertTensor.ours) &&
                                    import.integer(megatron::kExpertTensor.ours) > 1);
  if (type == "flex" && !has_rows_of_experts) {
    import.take({kType, type}, "parallelism.expert_dispatch", std::string("per_node"));
    import_payload(arguments, import);
  } else if (type != "alltoall") {
    import.warn({kType, type}, "not modelled: tokens travel by plain all-to-all");
  }
}

void add_payload(const ParallelismSpec& p, Flags& flags) {
  if (p.expert_payload == ExpertPayload::mxfp8) {
    flags.flag("moe-flex-dispatcher-backend", "ncclep");
    flags.flag("moe-dispatch-fwd-dtype", "mxfp8");
    flags.flag("moe-combine-bwd-dtype", "mxfp8");
  } else if (p.expert_payload != ExpertPayload::training) {
    flags.note(fmt::format("Megatron-LM has no expert_payload {}: tokens travel in bf16",
                           to_string(p.expert_payload)));
  }
}

}  // namespace shardsim
