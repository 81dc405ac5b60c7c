#include <string>

#include "strategies/model/attention_mask.hpp"
#include "strategies/model/layer_options.hpp"

#include "scenarios/resolve.hpp"

namespace shardsim {

namespace {

constexpr const char* kList = "model.layers";

// Sliding attention has a window and chunked attention a chunk; neither has the other.
void check_reach(Reading& r, std::size_t index, const LayerSpec& layer) {
  struct Size {
    const char* key;
    std::int64_t value;
    bool is_wanted;
  };
  if (is_broken_layer(r, index, "attention")) return;
  for (const Size& size :
       {Size{"window_size", layer.window_size, layer.attention == AttentionReach::sliding},
        Size{"chunk_size", layer.chunk_size, layer.attention == AttentionReach::chunked}}) {
    if (is_broken_layer(r, index, size.key) || size.is_wanted == (size.value > 0)) continue;
    const FieldState state = r.item(kList, index, size.value > 0 ? size.key : "");
    r.problems.add(
        "E0241", state.span, state.pointer,
        std::string(to_string(layer.attention)) + " attention " +
            (size.is_wanted ? "has no " : "has a ") + size.key,
        size.is_wanted
            ? "give its positions, 1 or more"
            : std::string("leave it out, or choose the attention that has a ") + size.key);
  }
}

// A list that says which layers have experts leaves first_dense_layers nothing to say.
void check_feed_forward(Reading& r, std::size_t index, const LayerSpec& layer) {
  const ModelSpec& m = r.scenario.model;
  if (is_broken_layer(r, index, "feed_forward") || layer.feed_forward == FeedForward::automatic)
    return;
  const FieldState state = r.item(kList, index, "feed_forward");
  if (r.good("model.num_experts") && m.num_experts == 0 &&
      layer.feed_forward == FeedForward::experts) {
    r.problems.add("E0241", state.span, state.pointer,
                   "the layer is to have experts, but the model has none",
                   "give num_experts, or leave it out");
  }
  if (r.good("model.first_dense_layers") && m.first_dense_layers > 0) {
    r.problems.add("E0242", state.span, state.pointer,
                   "feed_forward and model.first_dense_layers both say which layers have experts",
                   "leave first_dense_layers out");
  }
}

// The list is the one form of a pattern, and num_layers its length.
void resolve_count(Reading& r) {
  ModelSpec& m = r.scenario.model;
  std::int64_t listed = 0;
  for (const LayerSpec& layer : m.layers) listed += layer.repeats;
  if (!r.given("model.num_layers")) {
    if (m.layers_cycle) {
      r.problem("E0242", "model.layers_cycle", "a cycle of layers does not say how many there are",
                "give num_layers");
      return;
    }
    return derive(r, "model.num_layers", m.num_layers, listed);
  }
  if (!r.good("model.num_layers") || (m.layers_cycle && listed <= m.num_layers)) return;
  if (listed == m.num_layers) return;
  r.problem(
      "E0242", "model.num_layers",
      "num_layers is " + text_of(m.num_layers) + ", but model.layers has " + text_of(listed),
      listed < m.num_layers
          ? "list all of them, or set layers_cycle if the list starts again from its beginning"
          : "leave num_layers out, or shorten the list");
}

}  // namespace

bool is_broken_layer(const Reading& r, std::size_t index, const char* key) {
  const FieldState state = r.item(kList, index, key);
  return state.given && !state.good;
}

void resolve_layers(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  if (m.layers.empty()) {
    if (m.layers_cycle) {
      r.problem("E0242", "model.layers_cycle", "there is no list of layers to go through again",
                "add \"layers\", or leave it out");
    }
    return need(r, "model.num_layers", to_string(m.family));
  }
  if (m.family != ModelFamily::llama) {
    r.problem("E0201", kList,
              std::string("family ") + to_string(m.family) + " has layers of one kind",
              "leave it out, or use the llama family");
    return;
  }
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    check_reach(r, i, m.layers[i]);
    check_feed_forward(r, i, m.layers[i]);
  }
  resolve_linear(r);
  resolve_count(r);
}

}  // namespace shardsim
