#include "scenarios/formats/hf_keys.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <fmt/format.h>

namespace shardsim {

namespace {

constexpr const char* kOfTokens[] = {"bos_token_id",
                                     "eos_token_id",
                                     "pad_token_id",
                                     "sep_token_id",
                                     "unk_token_id",
                                     "mask_token_id",
                                     "bos_token",
                                     "eos_token",
                                     "pad_token",
                                     "tokenizer_class",
                                     "decoder_start_token_id",
                                     "forced_bos_token_id",
                                     "forced_eos_token_id",
                                     "ignore_index",
                                     "prefix",
                                     "image_token_id",
                                     "image_token_index",
                                     "video_token_id",
                                     "video_token_index",
                                     "audio_token_id",
                                     "vision_start_token_id",
                                     "vision_end_token_id",
                                     "vision_token_id",
                                     "boi_token_index",
                                     "eoi_token_index",
                                     "boi_token_id",
                                     "eoi_token_id",
                                     "boa_token_id",
                                     "eoa_token_id",
                                     "eoa_token_index",
                                     "vision_soft_tokens_per_image",
                                     "image_placeholder",
                                     "video_placeholder",
                                     "media_placeholder_token_id",
                                     "pad_id",
                                     "eod_token_id",
                                     "sep_id",
                                     "unk_id",
                                     "bos_id",
                                     "eos_id",
                                     "im_start_id",
                                     "im_end_id",
                                     "im_newline_id",
                                     "mask_init_id",
                                     "text_start_id",
                                     "text_end_id",
                                     "spatial_merge_size"};

constexpr const char* kOfTheLibrary[] = {"architectures",
                                         "auto_map",
                                         "transformers_version",
                                         "model_type",
                                         "dtype",
                                         "torch_dtype",
                                         "_name_or_path",
                                         "_commit_hash",
                                         "name_or_path",
                                         "_attn_implementation",
                                         "attn_implementation",
                                         "_attn_implementation_autoset",
                                         "_experts_implementation",
                                         "use_cache",
                                         "cache_implementation",
                                         "for_llm_compressor",
                                         "return_dict",
                                         "return_dict_in_generate",
                                         "output_attentions",
                                         "output_hidden_states",
                                         "output_router_logits",
                                         "output_scores",
                                         "torchscript",
                                         "use_bfloat16",
                                         "tf_legacy_loss",
                                         "gradient_checkpointing",
                                         "use_flash_attn",
                                         "use_flash_attention",
                                         "use_flash_attention_2",
                                         "flash_attn",
                                         "flash_rotary",
                                         "fused_dense",
                                         "fused_bias_fc",
                                         "use_cache_quantization",
                                         "use_cache_kernel",
                                         "keys_to_ignore_at_inference",
                                         "finetuning_task",
                                         "id2label",
                                         "label2id",
                                         "num_labels",
                                         "problem_type",
                                         "task_specific_params",
                                         "is_decoder",
                                         "chunk_size_feed_forward",
                                         "reorder_and_upcast_attn",
                                         "summary_activation",
                                         "summary_first_dropout",
                                         "summary_proj_to_labels",
                                         "summary_type",
                                         "summary_use_proj",
                                         "n_special",
                                         "predict_special_tokens",
                                         "for_reward",
                                         "unsloth_version",
                                         "unsloth_fixed"};

constexpr const char* kOfGeneration[] = {"max_length",
                                         "min_length",
                                         "do_sample",
                                         "early_stopping",
                                         "num_beams",
                                         "num_beam_groups",
                                         "diversity_penalty",
                                         "temperature",
                                         "top_k",
                                         "top_p",
                                         "typical_p",
                                         "repetition_penalty",
                                         "length_penalty",
                                         "no_repeat_ngram_size",
                                         "encoder_no_repeat_ngram_size",
                                         "bad_words_ids",
                                         "suppress_tokens",
                                         "begin_suppress_tokens",
                                         "num_return_sequences",
                                         "remove_invalid_values",
                                         "exponential_decay_length_penalty",
                                         "num_logits_to_keep"};

constexpr const char* kOfTheStart[] = {"initializer_range",
                                       "initializer_cutoff_factor",
                                       "embedding_initializer_range",
                                       "init_std",
                                       "init_method",
                                       "rescale_prenorm_residual",
                                       "time_step_min",
                                       "time_step_max",
                                       "time_step_floor",
                                       "time_step_rank"};

// They change angles of rotary positions, or how far these reach.
constexpr const char* kOfPositions[] = {"max_position_embeddings",
                                        "original_max_position_embeddings",
                                        "initial_context_length",
                                        "max_seq_len",
                                        "seq_length",
                                        "max_sequence_length",
                                        "rope_scaling",
                                        "rope_parameters",
                                        "rope_type",
                                        "rope_interleave",
                                        "rope_scaling_factor",
                                        "rope_ntk_alpha",
                                        "rotary_base",
                                        "yarn_only_types",
                                        "use_mrope",
                                        "mrope_section",
                                        "mrope_interleaved",
                                        "indexer_rope_interleave"};

// They say how another program splits or computes the model.
constexpr const char* kOfOtherPrograms[] = {"pretraining_tp",    "ep_size",
                                            "router_dtype",      "need_fp32_gate",
                                            "mamba_ssm_dtype",   "mamba_ssm_cache_dtype",
                                            "use_mamba_kernels", "moe_shared_expert_overlap",
                                            "moe_use_aux_free"};

// Where the readers have asked for what these would change, they say it again.
constexpr const char* kSaidElsewhere[] = {
    "use_sliding_window", "max_window_layers", "experts_per_token", "qk_head_dim",
    // Heads of Mamba-2 and their size have keys of their own.
    "expand", "mamba_expand",
    // Command A and Gemma 3.
    "layer_switch", "use_parallel_block", "use_gated_activation", "order_of_interleaved_layers",
    "_sliding_window_pattern"};

struct HfHarmless {
  std::span<const char* const> keys;
  const char* why;
};

constexpr std::array kHarmlessHfKeys = {
    HfHarmless{kOfTokens, "numbers and names of tokens"},
    HfHarmless{kOfTheLibrary, "says nothing about cost"},
    HfHarmless{kOfGeneration, "of generating text, not of training"},
    HfHarmless{kOfTheStart, "weights' first values"},
    HfHarmless{kOfPositions, "angles of rotary positions, which cost nothing"},
    HfHarmless{kOfOtherPrograms, "how another program runs the model"},
    HfHarmless{kSaidElsewhere, "follows from other keys"},
};

// Keys without a place in a scenario that leave the model what it is: the user is told of them.
struct HfNote {
  const char* key;
  const char* why;
};

constexpr const char* kNoDropout = "not modelled: attention and weights drop nothing here";
constexpr const char* kTower = "left out: the language model alone is trained";

constexpr std::array kNotes = {
    HfNote{"quantization_config", "not modelled: weights are trained unquantized"},
    HfNote{"expert_dtype", "not modelled: weights are trained unquantized"},
    HfNote{"attention_dropout", kNoDropout},
    HfNote{"residual_dropout", "not taken over: set training.hidden_dropout"},
    HfNote{"hidden_dropout", "not taken over: set training.hidden_dropout"},
    HfNote{"hidden_dropout_prob", "not taken over: set training.hidden_dropout"},
    HfNote{"attention_probs_dropout_prob", kNoDropout},
    HfNote{"embedding_dropout", "not taken over: set training.hidden_dropout"},
    HfNote{"output_dropout", "not taken over: set training.hidden_dropout"},
    HfNote{"resid_pdrop", "not taken over: set training.hidden_dropout"},
    HfNote{"embd_pdrop", "not taken over: set training.hidden_dropout"},
    HfNote{"attn_pdrop", kNoDropout},
    HfNote{"router_jitter_noise", "not modelled: routers add no noise here"},
    HfNote{"aux_loss_alpha", "not modelled: the auxiliary loss of single sequences"},
    HfNote{"seq_aux", "not modelled: the auxiliary loss of single sequences"},
    HfNote{"router_aux_loss_coef", "not modelled: there are no experts"},
    HfNote{"vision_config", kTower},
    HfNote{"audio_config", kTower},
    HfNote{"speech_config", kTower},
    HfNote{"vision_tower_config", kTower},
    HfNote{"projector_hidden_act", kTower},
    HfNote{"multimodal_projector_bias", kTower},
    HfNote{"vision_feature_layer", kTower},
    HfNote{"vision_feature_select_strategy", kTower},
};

// Keys that change nothing at one value, and are unknown at any other.
struct HfNeutral {
  const char* key;
  const char* written;
};

constexpr std::array kNeutral = {
    HfNeutral{"scale_attn_weights", "true"},
    HfNeutral{"att_impl_type", "\"GQA\""},
    HfNeutral{"moe_layer_end_index", "-1"},
    HfNeutral{"hidden_act", "\"silu\""},
    HfNeutral{"hidden_act", "\"swish\""},
    HfNeutral{"use_rmsnorm", "true"},
    HfNeutral{"norm_type", "\"rms\""},
    HfNeutral{"normalization_function", "\"rmsnorm\""},
    HfNeutral{"full_attn_mod", "1"},
    HfNeutral{"moe_gate", "\"topk\""},
    HfNeutral{"activation_function", "\"gelu_new\""},
};

bool has_key(std::span<const char* const> keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

bool says_nothing(const JsonValue& value) {
  if (std::holds_alternative<std::nullptr_t>(value.data)) return true;
  if (const auto* truth = std::get_if<bool>(&value.data)) return !*truth;
  if (const auto number = value.number()) return *number == 0.0;
  if (value.is_string()) return value.string().empty();
  if (value.is_array()) return std::ranges::all_of(value.array(), says_nothing);
  return value.object().empty();
}

const HfNote* note_of(const std::string& key) {
  const auto* const found =
      std::ranges::find_if(kNotes, [&](const auto& n) { return key == n.key; });
  return found == kNotes.end() ? nullptr : found;
}

// Null: it is in no list.
const char* reason_of(const std::string& key, const std::string& written) {
  for (const HfHarmless& group : kHarmlessHfKeys) {
    if (has_key(group.keys, key)) return group.why;
  }
  const bool is_neutral = std::ranges::any_of(
      kNeutral, [&](const auto& each) { return key == each.key && written == each.written; });
  return is_neutral ? "as it is here" : nullptr;
}

}  // namespace

void file_unread_hf_keys(const ForeignObject& config, Import& import, HfReasons& reasons) {
  for (const std::string& key : config.rest()) {
    const ForeignValue value = config.at(key);
    const JsonValue& json = config.value_of(key);
    const HfNote* const note = note_of(key);
    const char* const reason = reason_of(key, value.written);
    if (reason != nullptr) {
      import.ignore(value, reason);
    } else if (note != nullptr && json.is_object()) {
      import.warn(config.at(key, "{...}"), note->why);  // Empty, it has the defaults of its class.
    } else if (says_nothing(json)) {
      import.ignore(value, "says nothing");
    } else if (note != nullptr) {
      import.warn(value, note->why);
    } else {
      reasons.keys.push_back(value);
      reasons.unknown.add(
          "E1347", json.span, "",
          fmt::format("\"{}\" is not known here, so it may change the model", value.name),
          "--approximate leaves it out and says so; if it changes nothing, remove it");
    }
  }
}

void refuse_or_warn(const HfReasons& reasons, const std::string& file, bool approximate,
                    Import& import) {
  if (!approximate && reasons.features.empty()) return reasons.unknown.throw_if_any();
  std::vector<std::string> all = reasons.features;
  for (const ForeignValue& key : reasons.keys) {
    all.push_back(fmt::format("{} {}: this key is not known here", key.name, key.written));
  }
  refuse_or_warn(all, file, approximate, import);
}

}  // namespace shardsim
