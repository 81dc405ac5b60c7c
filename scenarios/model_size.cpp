#include "scenarios/model_size.hpp"

namespace shardsim {
namespace {

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

}  // namespace shardsim
