#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/resolve.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

// How popular experts are: one list of weights for all layers, or one for each with experts.
using Popularity = std::vector<std::vector<double>>;

// These limits allow 16,384 experts or 4,096 layers, and both at once in any real model.
constexpr JsonLimits kLimits = {.max_bytes = std::size_t{8} << 20U,
                                .max_depth = 3,
                                .max_string_bytes = 64,
                                .max_nodes = std::size_t{1} << 18U};

class PopularityReader {
 public:
  PopularityReader(std::int64_t num_experts, std::int64_t num_layers, ProblemList& problems)
      : num_experts_(num_experts), num_layers_(num_layers), problems_(problems) {}

  Popularity read(const JsonValue& file) {
    if (!file.is_array() || file.array().empty()) {
      refuse(file, "", "it must be a list of weights, or of such lists, not " + describe(file));
      return {};
    }
    Popularity popularity;
    if (!file.array().front().is_array()) {
      popularity.push_back(weights_of(file, ""));
    } else if (static_cast<std::int64_t>(file.array().size()) != num_layers_) {
      refuse(file, "",
             "it has " + std::to_string(file.array().size()) + " lists, but " +
                 std::to_string(num_layers_) + " layers have experts");
    } else {
      for (std::size_t layer = 0; layer < file.array().size(); ++layer) {
        popularity.push_back(
            weights_of(file.array()[layer], pointer_to("", std::to_string(layer))));
      }
    }
    return popularity;
  }

 private:
  void refuse(const JsonValue& value, const std::string& pointer, const std::string& what) {
    problems_.add("E0213", value.span, pointer, "the popularity of experts cannot be read: " + what,
                  "list " + std::to_string(num_experts_) +
                      " numbers of 0 or more, once for all layers or for each with experts");
  }

  std::vector<double> weights_of(const JsonValue& list, const std::string& pointer) {
    std::vector<double> weights;
    if (!list.is_array() || static_cast<std::int64_t>(list.array().size()) != num_experts_) {
      refuse(
          list, pointer,
          (list.is_array() ? "a list of " + std::to_string(list.array().size()) : describe(list)) +
              " stands where the weights of " + std::to_string(num_experts_) + " experts must");
      return weights;
    }
    double sum = 0.0;
    for (std::size_t expert = 0; expert < list.array().size(); ++expert) {
      const JsonValue& value = list.array()[expert];
      const double weight = value.number().value_or(-1.0);
      if (!(weight >= 0.0 && weight <= kLargest)) {
        refuse(value, pointer_to(pointer, std::to_string(expert)),
               "a weight is " + describe(value) + ", it must be a number from 0 to 1e15");
        return {};
      }
      weights.push_back(weight);
      sum += weight;
    }
    if (!(sum > 0.0)) refuse(list, pointer, "all weights are 0");
    return weights;
  }

  static constexpr double kLargest = 1e15;
  std::int64_t num_experts_;
  std::int64_t num_layers_;
  ProblemList& problems_;
};

// Reads [1, 2.5, ...] or [[1, ...], ...] from a JSON file. Problems are added to `problems` with
// line and column: E0001 to E0005 for an unreadable file or text, E0213 for the rest. The result is
// then not to be used. The file is untrusted: its size is bounded before memory is taken.
Popularity read_popularity(const std::string& path, std::int64_t num_experts,
                           std::int64_t num_layers, ProblemList& problems) {
  const std::optional<std::string> text = read_regular_file(path, kLimits.max_bytes, problems);
  if (!text) return {};
  const SourceText source{.name = path, .text = *text};
  const std::optional<JsonValue> file = parse_json(source, problems, kLimits);
  return file ? PopularityReader(num_experts, num_layers, problems).read(*file) : Popularity{};
}

// A path beside the text that names it, or else in the current folder.
std::string path_of_popularity(Reading& r) {
  namespace fs = std::filesystem;
  const std::string& name = r.scenario.model.moe_popularity_file;
  const Span span = r.where("model.moe_popularity_file");
  if (span.source != nullptr) {
    const fs::path beside = fs::path(span.source->name).parent_path() / name;
    std::error_code error;
    if (fs::exists(beside, error)) return beside.string();
  }
  return name;
}

// Whether a kind declares its routing, and needs no list for it.
bool declares_without_file(const RoutingRow& row) {
  return is_declared(row) && !row.reads_popularity;
}

void resolve_routing(Reading& r) {
  ModelSpec& m = r.scenario.model;
  if (!r.all_good({"model.moe_routing", "model.moe_popularity_file", "model.first_dense_layers",
                   "model.num_layers"}) ||
      !routing_row(m.moe_routing).reads_popularity) {
    return;
  }
  if (m.moe_popularity_file.empty()) {
    r.problem("E0213", "model.moe_routing",
              "moe_routing is \"" + std::string(to_string(m.moe_routing)) +
                  "\", but moe_popularity_file does not say which",
              "name a file in moe_popularity_file, or use " +
                  routings_that(declares_without_file, " or ", "\""));
    return;
  }
  r.scenario.files.push_back({"model.moe_popularity_file", path_of_popularity(r)});
  m.moe_popularity =
      read_popularity(path_of_popularity(r), m.num_experts, m.layers_with_experts(), r.problems);
}

// Each token is routed once, by the one tensor-parallel rank that has it.
void check_token_shards(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ModelSpec& m = r.scenario.model;
  if (!r.all_good({"parallelism.tp", "parallelism.sequence_parallel"}) || p.tp == 1) return;
  if (!p.sequence_parallel) {
    r.problem("E0206", "parallelism.sequence_parallel",
              "experts take each token once, but without sequence_parallel all tp (" +
                  text_of(p.tp) + ") ranks have the same tokens",
              "set sequence_parallel true, or tp 1");
  }
  if (!r.good("model.moe_shared_ffn_hidden_size")) return;
  if (m.moe_shared_ffn_hidden_size % p.tp != 0) {
    r.problem("E0203", "parallelism.tp",
              "tp (" + text_of(p.tp) + ") does not divide the shared expert's width, " +
                  text_of(m.moe_shared_ffn_hidden_size),
              "use a tp that divides it");
  }
}

void check_sizes(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  if (r.good("model.num_experts_per_token") && m.num_experts_per_token > m.num_experts) {
    r.problem("E0201", "model.num_experts_per_token",
              "a token cannot pass " + text_of(m.num_experts_per_token) + " of " +
                  text_of(m.num_experts) + " experts",
              "use at most num_experts");
  }
  if (r.all_good({"model.first_dense_layers", "model.num_layers"}) &&
      m.layers_with_experts() == 0) {
    const char* list = "model.layers";
    const bool is_listed = r.scenario.model.first_dense_layers == 0;
    r.problem("E0201", is_listed ? list : "model.first_dense_layers",
              "all " + text_of(m.num_layers) + " layers are dense: no experts are left",
              is_listed ? "let a layer have experts, or leave num_experts out"
                        : "lower it, or leave num_experts out");
  }
  if (!r.all_good({"model.num_layers", "model.hidden_size", "model.moe_ffn_hidden_size",
                   "model.moe_shared_ffn_hidden_size"})) {
    return;
  }
  // Twice: beside them there are other parameters.
  const std::int64_t width =
      (m.num_experts + 1) * m.moe_ffn_hidden_size + m.moe_shared_ffn_hidden_size;
  const auto elements = product_if_fits({2, 3, m.num_layers, width, m.hidden_size});
  if (!elements) {
    r.problem("E0353", "model.num_experts", "the experts have more parameters than 64 bits count",
              "use fewer or smaller experts");
  }
}

constexpr std::int64_t kWidest = std::int64_t{1} << 24;

// One width for all else to read, however it was given.
void resolve_shared_width(Reading& r) {
  ModelSpec& m = r.scenario.model;
  constexpr const char* kWidth = "model.moe_shared_ffn_hidden_size";
  if (!r.all_good({"model.num_shared_experts", "model.moe_ffn_hidden_size"})) {
    if (!r.given(kWidth)) r.fields[kWidth].good = false;
    return;
  }
  const std::int64_t product = m.num_shared_experts * m.moe_ffn_hidden_size;
  if (!r.given(kWidth) && product > kWidest) {
    r.problem("E0201", "model.num_shared_experts",
              "the shared expert would be " + text_of(product) + " wide, which is more than " +
                  text_of(kWidest),
              "use fewer or narrower ones");
    r.fields[kWidth].good = false;
    return;
  }
  derive(r, kWidth, m.moe_shared_ffn_hidden_size, product);
  if (!r.good(kWidth) || m.num_shared_experts == 0) return;
  if (m.moe_shared_ffn_hidden_size == product) return;
  r.problem("E0201", kWidth,
            "the shared expert is " + text_of(m.moe_shared_ffn_hidden_size) +
                " wide here, and num_shared_experts (" + text_of(m.num_shared_experts) +
                ") x moe_ffn_hidden_size says " + text_of(product),
            "leave one of them out, or set num_shared_experts to 0");
}

void check_groups(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  if (!r.all_good({"model.moe_router_num_groups", "model.moe_router_group_topk",
                   "model.num_experts_per_token"}) ||
      m.moe_router_num_groups == 1) {
    return;
  }
  const std::int64_t groups = m.moe_router_num_groups;
  const std::int64_t chosen = m.moe_router_group_topk;
  if (m.num_experts % groups != 0) {
    r.problem("E0201", "model.moe_router_num_groups",
              text_of(groups) + " groups do not divide " + text_of(m.num_experts) + " experts",
              "try " + divisors(m.num_experts, m.num_experts));
    return;
  }
  if (chosen > groups || m.num_experts_per_token % chosen != 0) {
    r.problem("E0201", "model.moe_router_group_topk",
              "a token cannot go to " + text_of(m.num_experts_per_token) + " experts of " +
                  text_of(chosen) + " of " + text_of(groups) + " groups, equally many of each",
              "use a divisor of num_experts_per_token, at most moe_router_num_groups");
  } else if (m.num_experts_per_token / chosen > m.num_experts / groups) {
    r.problem("E0201", "model.moe_router_group_topk",
              text_of(chosen) + " groups of " + text_of(m.num_experts / groups) +
                  " experts are fewer than the " + text_of(m.num_experts_per_token) +
                  " that a token goes to",
              "raise it, or use fewer groups");
  }
}

void check_weights(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  if (r.all_good({"model.moe_weight_on_input", "model.num_experts_per_token"}) &&
      m.moe_weight_on_input && m.num_experts_per_token != 1) {
    r.problem("E0201", "model.moe_weight_on_input",
              "weights on inputs are for one expert per token, and a token goes to " +
                  text_of(m.num_experts_per_token),
              "set num_experts_per_token to 1, or leave it out");
  }
  if (r.all_good({"model.moe_shared_gate", "model.moe_shared_ffn_hidden_size"}) &&
      m.moe_shared_gate && m.moe_shared_ffn_hidden_size == 0) {
    r.problem("E0201", "model.moe_shared_gate", "there is no shared expert that a gate could weigh",
              "give moe_shared_ffn_hidden_size, or leave it out");
  }
}

void warn_about_learning(Reading& r) {
  const Scenario& s = r.scenario;
  const ModelSpec& m = s.model;
  const bool is_constant = m.num_experts_per_token == 1 && m.moe_router_normalised;
  if (is_constant && m.moe_aux_loss_coeff == 0.0) {
    r.scenario.warnings.emplace_back(
        "model.num_experts_per_token is 1: gates are renormalised over one expert and always 1, so "
        "the router learns nothing; set model.moe_aux_loss_coeff, or use 2 experts or more");
  }
}

}  // namespace

void resolve_experts(Reading& r) {
  ModelSpec& m = r.scenario.model;
  if (m.num_experts > 0 && r.good("model.ffn_hidden_size") && m.ffn_hidden_size == 0) {
    need(r, "model.moe_ffn_hidden_size", "llama");
  } else if (r.good("model.ffn_hidden_size")) {
    derive(r, "model.moe_ffn_hidden_size", m.moe_ffn_hidden_size, m.ffn_hidden_size);
  }
  resolve_shared_width(r);
  if (!r.all_good({"model.num_experts", "model.family"})) return;
  check_expert_layout(r);
  if (m.num_experts == 0) return;
  if (m.family != ModelFamily::llama) {
    r.problem("E0201", "model.num_experts",
              "family " + std::string(to_string(m.family)) + " has no experts",
              "leave it out, or use the llama family");
    return;
  }
  check_sizes(r);
  check_groups(r);
  check_weights(r);
  check_token_shards(r);
  resolve_routing(r);
  warn_about_learning(r);
}

}  // namespace shardsim
