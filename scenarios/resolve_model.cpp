#include <algorithm>

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

}  // namespace

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
