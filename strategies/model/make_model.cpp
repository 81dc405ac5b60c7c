#include "strategies/model/make_model.hpp"

#include <algorithm>
#include <array>

#include "sim/kernel/error.hpp"

#include "strategies/named_rows.hpp"
#include "strategies/sharding/context_parallel.hpp"
#include "strategies/sharding/expert_parallel.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

struct Family {
  std::string_view name;
  std::unique_ptr<Model> (*make)(const ModelOptions& options);
};

constexpr std::array<Family, 3> kFamilies = {{
    {"mlp", make_mlp},
    {"gpt2", make_gpt2},
    {"llama", make_llama},
}};

struct Size {
  const char* name;
  std::int64_t value;
};

bool has_dense_mlp(const ModelOptions& options) {
  for (int block = 0; block < static_cast<int>(options.num_layers); ++block) {
    const bool has_none = options.layer(block).feed_forward == FeedForward::none;
    if (!has_none && !options.has_experts(block)) return true;
  }
  return false;
}

void require_positive_sizes(const ModelOptions& options) {
  const std::array<Size, 5> sizes = {{
      {"num_layers", options.num_layers},
      {"hidden_size", options.hidden_size},
      {"ffn_hidden_size", has_dense_mlp(options) ? options.ffn_hidden_size : 1},
      {"vocab_size", options.vocab_size},
      {"seq_len", options.seq_len},
  }};
  for (const Size& size : sizes) {
    if (size.value <= 0) {
      throw UsageError(
          "E0621", concat("a model's ", size.name, " is ", size.value, ", it must be at least 1"));
    }
  }
}

void require_divisible(const char* code, const Size& size, const ModelOptions& options) {
  const std::int64_t t = options.tensor_parallel;
  if (size.value % t != 0) {
    throw UsageError(code,
                     concat("tensor parallelism of degree ", t, " cannot divide ", size.name, " (",
                            size.value, ")"),
                     "choose tp so that it divides " + std::string(size.name));
  }
}

// Fewer heads of keys and values than ranks are copied to as many ranks each.
void require_divisible_groups(const ModelOptions& options) {
  const std::int64_t groups = options.num_query_groups;
  if (divides_groups(groups, options.tensor_parallel, options.family == "llama")) return;
  require_divisible("E0632", {"num_query_groups", groups}, options);
}

void require_tensor_parallel(const ModelOptions& options) {
  const int t = options.tensor_parallel;
  if (t < 1) {
    throw UsageError("E0634", "the degree of tensor parallelism is " + std::to_string(t),
                     "use 1 for none");
  }
  if (options.sequence_parallel && t <= 1) {
    throw UsageError("E0635",
                     "sequence parallelism divides tokens among tensor-parallel ranks, "
                     "but the degree of tensor parallelism is 1",
                     "raise tp, or switch sequence_parallel off");
  }
  if (has_dense_mlp(options)) {
    require_divisible("E0633", {"ffn_hidden_size", options.ffn_hidden_size}, options);
  }
}

// Heads of a tensor-parallel rank among the ranks that exchange them for tokens.
void require_divisible_heads(const Size& heads, int ulysses) {
  if (heads.value % ulysses != 0) {
    throw UsageError("E0664",
                     concat("attention exchanges heads among ", ulysses,
                            " context-parallel ranks, which do not divide the ", heads.value, " ",
                            heads.name, " of a tensor-parallel rank"),
                     "use " + context_attentions_that(exchanges_no_heads) +
                         " attention, or a smaller ulysses_degree or tp");
  }
}

void require_context_parallel(const ModelOptions& options) {
  const std::int64_t c = options.context_parallel;
  if (c < 1) {
    throw UsageError("E0662", "the degree of context parallelism is " + std::to_string(c),
                     "use 1 for none");
  }
  if (c == 1) return;
  if (options.seq_len % (2 * c) != 0) {
    throw UsageError("E0663",
                     concat("context parallelism of degree ", c, " cuts samples into ", 2 * c,
                            " equal runs, which do not divide seq_len (", options.seq_len, ")"),
                     "choose seq_len as a multiple of 2 cp");
  }
  const int ulysses =
      ulysses_size(options.context_attention, options.context_parallel, options.ulysses_degree);
  if (ulysses < 1 || c % ulysses != 0) {
    throw UsageError("E0665",
                     concat("groups of ulysses_degree (", ulysses,
                            ") ranks do not divide context parallelism of degree ", c),
                     "choose a divisor of cp");
  }
  const std::int64_t heads = options.num_attention_heads / options.tensor_parallel;
  require_divisible_heads({"attention heads", heads}, ulysses);
  require_divisible_heads({"key and value heads", options.groups_of_rank()}, ulysses);
}

void require_experts(const ModelOptions& options) {
  validate(options.moe, options.layers_with_experts());
  if (options.moe.num_experts == 0) return;
  if (options.family != "llama") {
    throw UsageError("E0645", "family " + options.family + " has no experts",
                     "use family llama, or set num_experts to 0");
  }
  if (options.tensor_parallel > 1 && !options.sequence_parallel) {
    throw UsageError("E0646",
                     concat("experts take each token once, but without sequence parallelism all ",
                            options.tensor_parallel, " tensor-parallel ranks have the same tokens"),
                     "switch sequence_parallel on, or set tp to 1");
  }
  require_divisible(
      "E0633", {"shared_ffn_hidden_size of experts", options.moe.shared_ffn_hidden_size}, options);
}

// Without an end of that parallelism a model of parts may run on shapes alone.
void refuse_context(const ModelContext& context, bool has_end, const char* code,
                    const std::string& message, const char* fix) {
  const auto refuse = [&] { throw UsageError(code, message, fix); };
  if (has_end) refuse();
  context.runtime.off_the_clock(refuse);
}

}  // namespace

namespace {

// The rest of what heads must be is as for the model's: see make_llama.
void require_own_heads(const ModelOptions& options, std::size_t layer) {
  const HeadOptions& own = options.layers[layer].heads;
  if (own == HeadOptions{}) return;
  const bool is_attention = has_mixer(options.layers[layer].mixer, Mixer::attention);
  if (options.family != "llama" || options.is_latent() || !is_attention) {
    throw UsageError(
        "E0648",
        concat("layer ", layer, " has heads of its own, which ",
               is_attention ? "llamas without latents" : "layers of attention", " alone have"),
        "leave them out");
  }
  const std::int64_t width = own.head_dim > 0 ? own.head_dim : options.head_size();
  const std::int64_t values = own.value_head_dim > 0 ? own.value_head_dim : width;
  const bool is_any_negative = own.num_attention_heads < 0 || own.num_query_groups < 0 ||
                               own.head_dim < 0 || own.value_head_dim < 0 || own.rotary_dim < 0;
  if (!is_any_negative && (!own.keys_are_values || values == width)) return;
  throw UsageError(
      "E0648",
      concat("layer ", layer, " has ", own.num_attention_heads, " heads, ", own.num_query_groups,
             " of keys, of ", own.head_dim, " elements, values of ", values, " and ",
             own.rotary_dim, " that turn", own.keys_are_values ? ", and keys as values" : ""),
      "give sizes of 0, for the model's, or more; keys that are values are as wide");
}

void require_layers(const ModelOptions& options) {
  const auto given = static_cast<std::int64_t>(options.layers.size());
  if (given != 0 && given != options.num_layers) {
    throw UsageError("E0648",
                     concat("options are given for ", given, " of ", options.num_layers, " layers"),
                     "list one LayerOptions for each layer, or none");
  }
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    if (options.layers[i].feed_forward == FeedForward::experts && options.moe.num_experts == 0) {
      throw UsageError("E0648", concat("layer ", i, " is to have experts, but the model has none"),
                       "give the model experts, or the layer another feed-forward");
    }
    if (options.layers[i].mixer == Mixer::none &&
        options.layers[i].feed_forward == FeedForward::none) {
      throw UsageError("E0648", concat("layer ", i, " has neither a mixer nor a feed-forward"),
                       "leave the layer out, or give it one of them");
    }
    require_own_heads(options, i);
    const AttentionMask& mask = options.layers[i].mask;
    const bool has_size =
        mask.reach == AttentionReach::sliding || mask.reach == AttentionReach::chunked;
    if (has_size == (mask.size > 0)) continue;
    throw UsageError("E0648", concat("layer ", i, " has a mask of ", mask.size, " positions"),
                     "a window or chunk has one or more positions, other masks have 0");
  }
}

}  // namespace

ModelOptions ModelOptions::with_heads_of(int block) const {
  ModelOptions own = *this;
  if (layer(block).heads == HeadOptions{}) return own;
  const HeadOptions heads = layer(block).heads.beside({.num_attention_heads = num_attention_heads,
                                                       .num_query_groups = num_query_groups,
                                                       .head_dim = head_size(),
                                                       .value_head_dim = value_size(),
                                                       .rotary_dim = rotary_size()});
  own.num_attention_heads = heads.num_attention_heads;
  own.num_query_groups = heads.num_query_groups;
  own.head_dim = heads.head_dim;
  own.value_head_dim = heads.value_head_dim;
  own.rotary_dim = heads.rotary_dim;
  return own;
}

int ModelOptions::most_group_copies(int t) const {
  int most = 1;
  for (int block = 0; block < num_blocks(); ++block) {
    const std::int64_t own = layer(block).heads.num_query_groups;
    const std::int64_t groups = own > 0 ? own : num_query_groups;
    if (family == "llama") most = std::max(most, static_cast<int>(copies_of_groups(groups, t)));
  }
  return most;
}

bool ModelOptions::mixes_by(Mixer mixer) const {
  if (layers.empty()) return mixer == Mixer::attention;
  return std::ranges::any_of(
      layers, [mixer](const LayerOptions& each) { return has_mixer(each.mixer, mixer); });
}

bool ModelOptions::has_experts(int block) const {
  const FeedForward kind = layer(block).feed_forward;
  if (moe.num_experts == 0) return false;
  return kind == FeedForward::automatic ? block >= moe.first_dense_layers
                                        : kind == FeedForward::experts;
}

std::int64_t ModelOptions::layers_with_experts() const {
  std::int64_t count = 0;
  for (int block = 0; block < static_cast<int>(num_layers); ++block) {
    if (has_experts(block)) ++count;
  }
  return count;
}

void require_transformer(const ModelOptions& options) {
  if (options.integer_valued) {
    throw UsageError("E0628", "family " + options.family + " has no whole-number form",
                     "use family mlp: its arithmetic has no roots or exponentials");
  }
  const std::int64_t heads = options.num_attention_heads;
  const std::int64_t groups = options.num_query_groups;
  const bool shares_width = options.head_dim == 0 && !options.is_latent();
  if (heads < 1 || options.head_dim < 0 || (shares_width && options.hidden_size % heads != 0)) {
    throw UsageError(
        "E0622", concat("num_attention_heads (", heads, ") must divide hidden_size (",
                        options.hidden_size, "), or head_dim (", options.head_dim, ") be given"));
  }
  if (groups < 1 || heads % groups != 0) {
    throw UsageError("E0623", concat("num_query_groups (", groups,
                                     ") must divide num_attention_heads (", heads, ")"));
  }
  const bool has_keys_width = options.value_size() == options.head_size();
  if (options.family != "llama" && (options.is_latent() || !has_keys_width)) {
    throw UsageError(
        "E0629",
        "family " + options.family + " has no latent attention, and values as wide as its keys",
        "use family llama, or leave kv_lora_rank and value_head_dim out");
  }
  require_divisible("E0631", {"num_attention_heads", heads}, options);
  require_divisible_groups(options);
  require_context_parallel(options);
}

void require_context(const ModelContext& context, const ModelOptions& options) {
  const ExpertParallel* expert = context.parallel.expert;
  const int experts = expert == nullptr ? 1 : expert->size();
  const int slices = expert == nullptr ? 1 : expert->slices();
  if (experts != options.moe.expert_parallel || slices != options.moe.expert_tensor_parallel) {
    const auto degree = [](int ep, int etp) {
      return etp == 1 ? concat(ep) : concat(ep, " with experts in ", etp, " slices");
    };
    refuse_context(context, expert != nullptr, "E0647",
                   concat("a model made for expert parallelism of degree ",
                          degree(options.moe.expert_parallel, options.moe.expert_tensor_parallel),
                          " runs at degree ", degree(experts, slices)),
                   "make the model with the options of the ExpertParallel it runs on");
  }
  const TensorParallel* tensor = context.parallel.tensor;
  const int given = tensor == nullptr ? 1 : tensor->size();
  const bool given_sequence = tensor != nullptr && tensor->sequence_parallel();
  if (given == options.tensor_parallel && given_sequence == options.sequence_parallel) return;
  refuse_context(
      context, tensor != nullptr, "E0636",
      concat("a model made for tensor parallelism of degree ", options.tensor_parallel,
             options.sequence_parallel ? " with" : " without",
             " sequence parallelism runs at degree ", given, given_sequence ? " with" : " without"),
      "make the model with the options of the TensorParallel it runs on");
}

void require_part(const ModelContext& context, const SequencePart& part,
                  const ModelOptions& options) {
  const ContextParallel* parallel = context.parallel.context;
  const SequencePart own = parallel == nullptr ? SequencePart() : parallel->part();
  if (own == part && own.parts == options.context_parallel) return;
  refuse_context(context, parallel != nullptr, "E0666",
                 concat("a model made for context parallelism of degree ", options.context_parallel,
                        " is given share ", part.index, " of ", part.parts,
                        " of its samples and runs as rank ", own.index, " of ", own.parts),
                 "make the batch with the part of the ContextParallel it runs on");
}

std::unique_ptr<Model> make_model(const ModelOptions& options) {
  require_layers(options);
  require_positive_sizes(options);
  require_tensor_parallel(options);
  require_experts(options);
  if (!(options.hidden_dropout >= 0.0 && options.hidden_dropout < 1.0)) {
    throw UsageError(
        "E0638",
        concat("hidden_dropout is ", options.hidden_dropout, ", it must be at least 0 and below 1"),
        "use 0 for none");
  }
  if (!has_arithmetic(options.dtype)) {
    throw UsageError("E0624", "models do not compute in " + std::string(name_of(options.dtype)),
                     "use one of fp64, fp32, bf16, fp16");
  }
  for (const Family& family : kFamilies) {
    if (family.name == options.family) return family.make(options);
  }
  const auto all = [](const Family&) { return true; };
  throw UsageError("E0625", "there is no model family \"" + options.family + "\"",
                   "use one of " + names_that(kFamilies, all, ", ", ""));
}

std::vector<std::string_view> model_families() {
  std::vector<std::string_view> names;
  names.reserve(kFamilies.size());
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

}  // namespace shardsim
