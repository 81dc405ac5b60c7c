#include <algorithm>
#include <array>
#include <cstddef>

#include "sim/hardware/collective_rows.hpp"

#include "strategies/model/context_attention.hpp"
#include "strategies/named_rows.hpp"
#include "strategies/sharding/context_forms.hpp"

namespace shardsim {

namespace {

constexpr std::array<CollectiveKind, 2> kGatherCalls = {collective::kAllGather,
                                                        collective::kReduceScatter};
constexpr std::array<CollectiveKind, 1> kSplitCalls = {collective::kSplit};

// Each row names all members: GCC 12 loses defaults of members in nested constant arrays.
constexpr std::array kContextForms = {
    ContextAttentionRow{.form = ContextAttention::ring,
                        .name = "ring",
                        .meaning = "blocks of them go round (Megatron-LM's p2p)",
                        .megatron = "p2p",
                        .torchtitan = "alltoall",
                        .deepspeed = {},
                        .exchange = HeadGroups::none,
                        .passes_keys_around = true,
                        .collectives = {},
                        .probed_as = ContextAttention::ring,
                        .was_measured = true,
                        .forward = ring_attention_forward,
                        .backward = ring_attention_backward},
    ContextAttentionRow{.form = ContextAttention::all_gather,
                        .name = "all_gather",
                        .meaning = "all are gathered",
                        .megatron = "all_gather",
                        .torchtitan = "allgather",
                        .deepspeed = {},
                        .exchange = HeadGroups::none,
                        .passes_keys_around = false,
                        .collectives = kGatherCalls,
                        .probed_as = ContextAttention::all_gather,
                        .was_measured = false,
                        .forward = gathered_attention_forward,
                        .backward = gathered_attention_backward},
    ContextAttentionRow{.form = ContextAttention::ulysses,
                        .name = "ulysses",
                        .meaning = "tokens are exchanged for heads (Megatron-LM's a2a), cp must "
                                   "divide the key and value heads of a rank",
                        .megatron = "a2a",
                        .torchtitan = {},
                        .deepspeed = "DistributedAttention",
                        .exchange = HeadGroups::all,
                        .passes_keys_around = false,
                        .collectives = {},
                        .probed_as = ContextAttention::ulysses,
                        .was_measured = false,
                        .forward = nullptr,
                        .backward = nullptr},
    ContextAttentionRow{.form = ContextAttention::two_level,
                        .name = "two_level",
                        .meaning = "ulysses within groups of neighbours, rings between them "
                                   "(a2a+p2p)",
                        .megatron = "a2a+p2p",
                        .torchtitan = {},
                        .deepspeed = {},
                        .exchange = HeadGroups::chosen,
                        .passes_keys_around = true,
                        .collectives = kSplitCalls,
                        .probed_as = ContextAttention::all_gather,
                        .was_measured = false,
                        .forward = ring_attention_forward,
                        .backward = ring_attention_backward},
};
static_assert(stand_in_order(kContextForms, &ContextAttentionRow::form));

constexpr auto kContextFormNames = names_in_order(kContextForms);

}  // namespace

const ContextAttentionRow& context_attention_row(ContextAttention form) {
  return kContextForms.at(static_cast<std::size_t>(form));
}

std::span<const ContextAttentionRow> context_attention_rows() { return kContextForms; }

std::span<const char* const> context_attention_names() { return kContextFormNames; }

const ContextAttentionRow& context_attention_in(ContextAttentionName framework) {
  return *std::find_if(kContextForms.begin(), kContextForms.end(),
                       [&](const ContextAttentionRow& row) { return !(row.*framework).empty(); });
}

const ContextAttentionRow* find_context_attention(ContextAttentionName framework,
                                                  std::string_view name) {
  const auto* const row = std::find_if(
      kContextForms.begin(), kContextForms.end(),
      [&](const ContextAttentionRow& each) { return !name.empty() && each.*framework == name; });
  return row == kContextForms.end() ? nullptr : row;
}

std::string context_attentions_that(ContextAttentionTrait has, std::string_view before_last,
                                    std::string_view quote) {
  return names_that(kContextForms, has, before_last, quote);
}

int ulysses_size(ContextAttention form, int c, int chosen) {
  return static_cast<int>(context_attention_row(form).exchanging_ranks(c, chosen));
}

}  // namespace shardsim
