#include "strategies/model/make_model.hpp"

#include <array>

#include "sim/kernel/error.hpp"

#include "strategies/model/families.hpp"

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

void require_positive(const ModelOptions& options) {
  const std::array<Size, 5> sizes = {{
      {"num_layers", options.num_layers},
      {"hidden_size", options.hidden_size},
      {"ffn_hidden_size", options.ffn_hidden_size},
      {"vocab_size", options.vocab_size},
      {"seq_len", options.seq_len},
  }};
  for (const Size& size : sizes) {
    if (size.value > 0) continue;
    throw UsageError("E0621", "a model's " + std::string(size.name) + " is " +
                                  std::to_string(size.value) + ", it must be at least 1");
  }
}

}  // namespace

void require_transformer(const ModelOptions& options) {
  if (options.integer_valued) {
    throw UsageError("E0628", "family " + options.family + " has no whole-number form",
                     "use family mlp: its arithmetic has no roots or exponentials");
  }
  const std::int64_t heads = options.num_attention_heads;
  const std::int64_t groups = options.num_query_groups;
  if (heads < 1 || options.hidden_size % heads != 0) {
    throw UsageError("E0622", "num_attention_heads (" + std::to_string(heads) +
                                  ") must divide hidden_size (" +
                                  std::to_string(options.hidden_size) + ")");
  }
  if (groups < 1 || heads % groups != 0) {
    throw UsageError("E0623", "num_query_groups (" + std::to_string(groups) +
                                  ") must divide num_attention_heads (" + std::to_string(heads) +
                                  ")");
  }
}

std::unique_ptr<Model> make_model(const ModelOptions& options) {
  require_positive(options);
  if (!is_floating(options.dtype) || options.dtype == DType::fp8_e4m3) {
    throw UsageError("E0624", "models do not compute in " + std::string(name_of(options.dtype)),
                     "use one of fp64, fp32, bf16, fp16");
  }
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.name == options.family) return family.make(options);
    known += known.empty() ? "" : ", ";
    known += family.name;
  }
  throw UsageError("E0625", "there is no model family \"" + options.family + "\"",
                   "use one of " + known);
}

std::vector<std::string_view> model_families() {
  std::vector<std::string_view> names;
  names.reserve(kFamilies.size());
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

}  // namespace shardsim
