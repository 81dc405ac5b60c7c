#include "scenarios/resolve.hpp"

namespace shardsim {
namespace {

void need(Reading& r, const std::string& path, const std::string& family) {
  if (!r.given(path) && r.broken.count("model") == 0) {
    r.problem("E0103", path, "\"" + last_key(path) + "\" is missing in \"model\"",
              "the " + family + " family needs it");
  }
}

void resolve_mlp(Reading& r) {
  ModelSpec& m = r.scenario.model;
  for (const char* path : {"model.num_attention_heads", "model.num_query_groups"}) {
    if (r.given(path)) {
      r.problem("E0201", path, "an mlp has no attention", "remove \"" + last_key(path) + "\"");
    }
  }
  if (r.good("model.seq_len") && m.seq_len != 1) {
    r.problem("E0201", "model.seq_len", "an mlp has no sequences: seq_len must be 1", "remove it");
  }
  if (r.good("model.tied_embeddings") && m.tied_embeddings) {
    r.problem("E0201", "model.tied_embeddings", "an mlp has no embeddings to tie", "remove it");
  }
  derive(r, "model.num_attention_heads", m.num_attention_heads, std::int64_t{0});
  derive(r, "model.num_query_groups", m.num_query_groups, std::int64_t{0});
  derive(r, "model.seq_len", m.seq_len, std::int64_t{1});
}

void resolve_attention(Reading& r) {
  ModelSpec& m = r.scenario.model;
  const std::string family = to_string(m.family);
  need(r, "model.num_attention_heads", family);
  need(r, "model.seq_len", family);
  if (r.good("model.num_attention_heads")) {
    derive(r, "model.num_query_groups", m.num_query_groups, m.num_attention_heads);
  }
  if (r.all_good({"model.num_attention_heads", "model.hidden_size"})) {
    if (m.hidden_size % m.num_attention_heads != 0) {
      r.problem("E0201", "model.num_attention_heads",
                "num_attention_heads (" + text_of(m.num_attention_heads) +
                    ") must divide hidden_size (" + text_of(m.hidden_size) + ")",
                "try " + divisors(m.hidden_size, m.hidden_size));
    } else if (m.family == ModelFamily::llama && (m.hidden_size / m.num_attention_heads) % 2 != 0) {
      r.problem("E0201", "model.num_attention_heads",
                "hidden_size / num_attention_heads is " +
                    text_of(m.hidden_size / m.num_attention_heads) +
                    "; rotary positions turn pairs and need it even");
    }
  }
  if (!r.all_good({"model.num_attention_heads", "model.num_query_groups"})) {
    return;
  }
  if (m.num_attention_heads % m.num_query_groups != 0) {
    r.problem("E0201", "model.num_query_groups",
              "num_query_groups (" + text_of(m.num_query_groups) +
                  ") must divide num_attention_heads (" + text_of(m.num_attention_heads) + ")",
              "try " + divisors(m.num_attention_heads, m.num_attention_heads));
  } else if (m.family == ModelFamily::gpt2 && m.num_query_groups != m.num_attention_heads) {
    r.problem("E0201", "model.num_query_groups", "gpt2 has one key and value head per query head",
              "remove it, or use the llama family");
  }
}

std::int64_t gpt2_parameters(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t f = m.ffn_hidden_size;
  const std::int64_t layer = 4 * h * h + 2 * h * f + 9 * h + f;
  const std::int64_t tables = (m.vocab_size + m.max_position_embeddings) * h;
  const std::int64_t head = m.tied_embeddings ? 0 : m.vocab_size * h;
  return tables + m.num_layers * layer + 2 * h + head;
}

std::int64_t llama_parameters(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t f = m.ffn_hidden_size;
  const std::int64_t k = h / m.num_attention_heads * m.num_query_groups;
  const std::int64_t layer = 2 * h * h + 2 * h * k + 2 * h;
  const std::int64_t head = m.tied_embeddings ? 0 : m.vocab_size * h;
  const std::int64_t with_experts = m.num_experts > 0 ? m.num_layers - m.first_dense_layers : 0;
  const std::int64_t experts =
      m.num_experts * h + 3 * (m.num_experts + m.num_shared_experts) * m.moe_ffn_hidden_size * h;
  return m.vocab_size * h + m.num_layers * layer + (m.num_layers - with_experts) * 3 * h * f +
         with_experts * experts + h + head;
}

std::int64_t mlp_parameters(const ModelSpec& m) {
  const std::int64_t f = m.ffn_hidden_size;
  return m.hidden_size * f + f + (m.num_layers - 1) * (f * f + f) + f * m.vocab_size + m.vocab_size;
}

}  // namespace

std::int64_t num_parameters(const ModelSpec& model) {
  switch (model.family) {
    case ModelFamily::mlp:
      return mlp_parameters(model);
    case ModelFamily::gpt2:
      return gpt2_parameters(model);
    case ModelFamily::llama:
      return llama_parameters(model);
  }
  return 0;
}

void resolve_model(Reading& r) {
  ModelSpec& m = r.scenario.model;
  if (!r.good("model.family")) {
    return;
  }
  if (m.family == ModelFamily::llama) {
    need(r, "model.ffn_hidden_size", "llama");
  } else if (r.good("model.hidden_size")) {
    derive(r, "model.ffn_hidden_size", m.ffn_hidden_size, 4 * m.hidden_size);
  }
  if (m.family == ModelFamily::mlp) {
    resolve_mlp(r);
  } else {
    resolve_attention(r);
  }
  derive(r, "model.tied_embeddings", m.tied_embeddings, m.family == ModelFamily::gpt2);
  if (!r.good("model.seq_len")) {
    return;
  }
  derive(r, "model.max_position_embeddings", m.max_position_embeddings, m.seq_len);
  if (r.good("model.max_position_embeddings") && m.seq_len > m.max_position_embeddings) {
    const std::string numbers = "seq_len is " + text_of(m.seq_len) +
                                ", but the model knows positions up to " +
                                text_of(m.max_position_embeddings);
    if (m.family == ModelFamily::llama) {
      r.scenario.warnings.push_back(numbers + "; costs are right, the model may not be");
    } else {
      r.problem("E0205", "model.seq_len", numbers, "shorten it, or set max_position_embeddings");
    }
  }
}

}  // namespace shardsim
