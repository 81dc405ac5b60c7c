#include "scenarios/field_table.hpp"

// The layers of a model one by one, where they differ.
namespace shardsim {

namespace {

constexpr auto kLayers = [](auto& s) -> auto& { return s.model.layers; };

}  // namespace

std::vector<Section> layer_sections() {
  return {list_section(
      "model.layers",
      "The blocks of a llama, from the first to the last, where they differ. An object stands for "
      "`repeats` neighbours. All of them are num_layers, unless layers_cycle is set.",
      kLayers, "a layer", R"({"attention": "sliding", "window_size": 4096, "repeats": 3})")};
}

// A table with a row per field, not a function to follow. NOLINTNEXTLINE(readability-function-size)
std::vector<Field> layer_fields() {
  using L = LayerSpec;
  return {
      item_field("model.layers[].mixer", kLayers, &L::mixer)
          .or_else("\"attention\"")
          .doc("The branch that exchanges something between positions. delta_net: gated DeltaNet, "
               "of the "
               "linear_ fields (Qwen3-Next). mamba: Mamba-2, of the mamba_ fields (Nemotron-H). "
               "none: there is no such branch; the layer is its feed-forward alone. "
               "attention_mamba: both beside each other, of one norm (Falcon-H1)."),
      item_field("model.layers[].attention", kLayers, &L::attention)
          .or_else("\"full\"")
          .same_as({{"Hugging Face", "layer_types"}})
          .doc("What a position attends to: full: itself and all before. sliding: of these the "
               "last window_size, itself among them. chunked: of these, those of its own chunk of "
               "chunk_size positions."),
      item_field("model.layers[].window_size", kLayers, &L::window_size)
          .range(0, kTwoTo24)
          .unit("tokens")
          .or_else("0")
          .same_as({{"Hugging Face", "sliding_window"}})
          .doc("Positions that a position attends to, itself among them; for sliding attention."),
      item_field("model.layers[].chunk_size", kLayers, &L::chunk_size)
          .range(0, kTwoTo24)
          .unit("tokens")
          .or_else("0")
          .same_as({{"Hugging Face", "attention_chunk_size"}})
          .doc("Positions of a chunk; for chunked attention."),
      item_field("model.layers[].rotary", kLayers, &L::rotary)
          .or_else("true")
          .doc(
              "Rotary positions turn queries and keys. Without them a layer knows positions by its "
              "mask alone."),
      item_field("model.layers[].rope_theta", kLayers, &L::rope_theta)
          .range(0, 1e12)
          .or_else("0")
          .doc("Base of the layer's rotary positions. 0: the model's rope_theta."),
      item_field("model.layers[].sinks", kLayers, &L::sinks)
          .or_else("false")
          .doc("Each query head has an attention sink: a trained number in the denominator of its "
               "softmax, which takes weight from all positions."),
      item_field("model.layers[].feed_forward", kLayers, &L::feed_forward)
          .or_else("\"auto\"")
          .same_as({{"Hugging Face", "mlp_layer_types"}})
          .doc("auto: experts in a model that has them, but for its first_dense_layers. dense: an "
               "MLP of ffn_hidden_size. experts: some of num_experts. none: the layer is its mixer "
               "alone."),
      item_field("model.layers[].num_attention_heads", kLayers, &L::heads,
                 &HeadOptions::num_attention_heads)
          .range(0, kTwoTo20)
          .or_else("0")
          .doc("Query heads of the layer's attention. 0: the model's, as in the next fields."),
      item_field("model.layers[].num_query_groups", kLayers, &L::heads,
                 &HeadOptions::num_query_groups)
          .range(0, kTwoTo20)
          .or_else("0")
          .doc("Its key and value heads; they divide its query heads."),
      item_field("model.layers[].head_dim", kLayers, &L::heads, &HeadOptions::head_dim)
          .range(0, kTwoTo14)
          .or_else("0")
          .doc("Elements of its query and key heads."),
      item_field("model.layers[].value_head_dim", kLayers, &L::heads, &HeadOptions::value_head_dim)
          .range(0, kTwoTo14)
          .or_else("0")
          .doc("Elements of its value heads. 0 in a layer with a head_dim: that."),
      item_field("model.layers[].rotary_dim", kLayers, &L::heads, &HeadOptions::rotary_dim)
          .range(0, kTwoTo14)
          .or_else("0")
          .doc("Elements of its heads that rotary positions turn. 0 in a layer with a head_dim: "
               "all of them."),
      item_field("model.layers[].keys_are_values", kLayers, &L::heads,
                 &HeadOptions::keys_are_values)
          .or_else("false")
          .same_as({{"Hugging Face", "attention_k_eq_v"}})
          .doc("The layer's values are its keys, before norm and rotary positions: it has no "
               "projection for them (full layers of Gemma 4)."),
      item_field("model.layers[].repeats", kLayers, &L::repeats)
          .range(1, kTwoTo14)
          .or_else("1")
          .doc("Neighbouring layers that are like this."),
  };
}

}  // namespace shardsim
