#include "strategies/pipeline/stage_split.hpp"

#include "scenarios/resolve.hpp"
#include "scenarios/stage_places.hpp"

// How many layers each pipeline stage has.
namespace shardsim {
namespace {

// A longer example list helps nobody.
constexpr std::int64_t kLongestExample = 32;

struct Stages {
  std::int64_t layers = 0;  // Layers of the model.
  std::int64_t stages = 0;
  bool has_embedding = false;
  StageSplit split;

  // The units of an even split.
  std::int64_t counted() const {
    return layers + (split.account_for_embedding ? 1 : 0) + (split.account_for_loss ? 1 : 0);
  }
};

Stages stages_of(const Scenario& s) {
  const ParallelismSpec& p = s.parallelism;
  Stages found{s.model.num_layers, p.pp * p.vpp, s.model.family != ModelFamily::mlp, {}};
  found.split.account_for_embedding = p.account_for_embedding_in_pipeline_split;
  found.split.account_for_loss = p.account_for_loss_in_pipeline_split;
  found.split.num_ranks = static_cast<int>(p.pp);
  return found;
}

std::string stage_words(const ParallelismSpec& p) {
  return "pp " + text_of(p.pp) + (p.vpp > 1 ? " x vpp " + text_of(p.vpp) : "");
}

std::string list_text(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (const std::int64_t count : layers) text += (text.empty() ? "[" : ", ") + text_of(count);
  return text + "]";
}

// ", such as [2, 1, 1]", where there is such a list and it is short.
std::string example(const Stages& s) {
  if (s.stages > s.counted() || s.stages > kLongestExample) return "";
  return ", such as " + list_text(even_stage_layers(s.layers, s.stages, s.split));
}

std::string accounted_words(const StageSplit& split) {
  const char* const embedding = "account_for_embedding_in_pipeline_split";
  const char* const loss = "account_for_loss_in_pipeline_split";
  if (!split.account_for_loss) return std::string(embedding) + " asks";
  if (!split.account_for_embedding) return std::string(loss) + " asks";
  return std::string(embedding) + " and " + loss + " ask";
}

void refuse_too_many(Reading& r, const Stages& s) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const std::int64_t most = s.layers + (s.has_embedding ? 2 : 1);
  std::string help = "use at most " + text_of(s.counted()) + " stages";
  if (s.stages <= most) {
    help += s.has_embedding ? ", or count the embedding and the head as layers: "
                              "account_for_embedding_in_pipeline_split, "
                              "account_for_loss_in_pipeline_split"
                            : ", or account_for_loss_in_pipeline_split: true";
  }
  r.problem("E0203", p.pp > s.counted() ? "parallelism.pp" : "parallelism.vpp",
            stage_words(p) + " are " + text_of(s.stages) + " stages, but the model has " +
                text_of(s.counted()) + " layers to give them",
            help);
}

void check_list(Reading& r, const Stages& s) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const char* const field = "parallelism.stage_layers";
  const auto given = static_cast<std::int64_t>(p.stage_layers.size());
  const std::string help =
      (s.stages == 1 ? "write 1 number, that of num_layers ("
                     : "write " + text_of(s.stages) + " numbers that add up to num_layers (") +
      text_of(s.layers) + ")" + example(s);
  if (given != s.stages) {
    return r.problem("E0203", field,
                     "stage_layers has " + text_of(given) + (given == 1 ? " number" : " numbers") +
                         ", but " + stage_words(p) +
                         (s.stages == 1 ? " is 1 stage" : " are " + text_of(s.stages) + " stages"),
                     help);
  }
  std::int64_t sum = 0;  // Adds numbers up to 2^14, from a text of at most 2^24 bytes.
  for (std::int64_t stage = 0; stage < given; ++stage) {
    const std::int64_t layers = p.stage_layers[static_cast<std::size_t>(stage)];
    const bool has_more = (stage == 0 && s.has_embedding) || stage + 1 == given;
    if (layers == 0 && !has_more) {
      return r.problem("E0203", field, "stage " + text_of(stage) + " has no layer to run",
                       "only the stage of the embedding and that of the head may have none");
    }
    sum += layers;
  }
  if (sum != s.layers) {
    return r.problem("E0203", field,
                     "the stages have " + text_of(sum) + " layers in all, but num_layers is " +
                         text_of(s.layers),
                     help);
  }
  const bool accounts = s.split.account_for_embedding || s.split.account_for_loss;
  if (accounts && s.stages <= s.counted() &&
      p.stage_layers != even_stage_layers(s.layers, s.stages, s.split)) {
    r.problem("E0206", field,
              "stage_layers is not the even split that " + accounted_words(s.split) + " for",
              "leave stage_layers or the other out");
  }
}

}  // namespace

void resolve_stages(Reading& r) {
  ParallelismSpec& p = r.scenario.parallelism;
  if (!r.all_good({"model.num_layers", "model.family", "parallelism.pp", "parallelism.vpp",
                   "parallelism.account_for_embedding_in_pipeline_split",
                   "parallelism.account_for_loss_in_pipeline_split"})) {
    return;
  }
  Stages s = stages_of(r.scenario);
  if (r.good("parallelism.schedule")) s.split.placement = stage_placement_of(r.scenario);
  if (s.split.account_for_embedding && !s.has_embedding) {
    return r.problem("E0206", "parallelism.account_for_embedding_in_pipeline_split",
                     "family mlp has no embedding that could count as a layer", "leave it out");
  }
  if (r.given("parallelism.stage_layers")) {
    if (r.good("parallelism.stage_layers")) check_list(r, s);
  } else if (s.stages > s.counted()) {
    refuse_too_many(r, s);
  } else {
    derive(r, "parallelism.stage_layers", p.stage_layers,
           even_stage_layers(s.layers, s.stages, s.split));
  }
}

}  // namespace shardsim
