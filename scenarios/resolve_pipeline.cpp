#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "strategies/pipeline/schedule.hpp"
#include "strategies/pipeline/schedule_csv.hpp"
#include "strategies/pipeline/stage_split.hpp"

#include "scenarios/read_file.hpp"
#include "scenarios/resolve.hpp"
#include "scenarios/stage_places.hpp"

// The pipeline: its schedule, perhaps from a file, and the layers of each stage.
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

constexpr const char* kField = "parallelism.schedule_file";
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

void add(Reading& r, const SourceText& source, const CsvProblem& problem) {
  const std::string cell =
      printable(std::string_view(source.text).substr(problem.offset, problem.length));
  const std::string place =
      problem.cell == 0 ? std::string() : "cell " + text_of(problem.cell) + " (" + cell + ") ";
  r.problems.add("E0007", {&source, problem.offset, problem.length}, "", place + problem.what,
                 problem.fix);
}

// The path from the folder where the command runs.
std::string beside_scenario(const Reading& r, const std::string& path) {
  return (std::filesystem::path(r.folder) / path).lexically_normal().string();
}

void check_schedule_name(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ScheduleRow& row = schedule_row_of(p.schedule);
  const std::string quoted = "\"" + p.schedule + "\"";
  if (p.pp > 1 && p.schedule == "none") {
    r.problem("E0206", "parallelism.schedule",
              text_of(p.pp) + " pipeline stages need a schedule, but it is \"none\"",
              "leave it out, or use \"" + std::string(default_schedule().name) + "\"");
  } else if (p.pp == 1 && p.schedule != "none" && !row.is_for_experts) {
    r.problem("E0206", "parallelism.schedule",
              "schedule " + quoted + " orders the work of pipeline stages, but pp is 1",
              "leave it out, or raise pp");
  } else if (row.is_for_experts && r.scenario.model.num_experts == 0) {
    r.problem("E0206", "parallelism.schedule",
              "schedule " + quoted +
                  " hides what experts' tokens take to travel, but the model has "
                  "no experts",
              "leave it out, or give the model num_experts");
  } else if (p.vpp < row.min_chunks) {
    r.problem(
        "E0206", "parallelism.vpp",
        "vpp is " + text_of(p.vpp) + ", but schedule " + quoted + " runs two model chunks per rank",
        "leave vpp out");
  } else if (p.schedule != kScheduleFromFile && p.vpp > row.max_chunks) {
    const bool two = row.max_chunks == 2;
    r.problem("E0206", "parallelism.vpp",
              "vpp is " + text_of(p.vpp) + ", but schedule " + quoted + " runs " +
                  (two ? "two model chunks" : "one model chunk") + " per rank",
              (two ? "" : "use " + schedules_that(takes_chunks, " or ", "\"") + ", or ") +
                  "leave vpp out");
  }
}

void check_microbatches(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const std::int64_t microbatches = r.scenario.training.num_microbatches;
  if (p.pp == 1 || !r.good("training.num_microbatches")) return;
  const ScheduleRow& row = schedule_row_of(p.schedule);
  if (row.whole_rounds && microbatches % p.pp != 0) {
    r.problem("E0204", "training.global_batch_size",
              p.schedule + " needs a multiple of pp (" + text_of(p.pp) +
                  ") microbatches, but there are " + text_of(microbatches),
              "change global_batch_size, or use " +
                  schedules_that(takes_chunks_of_any_batch, " or ", "\""));
  }
  if (p.pp * p.vpp > kMaxForwards) return;  // Reported elsewhere.
  const int least = row.least_microbatches({static_cast<int>(p.pp), static_cast<int>(p.vpp), 1});
  if (microbatches < least) {
    r.problem("E0204", "training.global_batch_size",
              p.schedule + " needs " + text_of(least) + " microbatches at least with pp " +
                  text_of(p.pp) + ", but there are " + text_of(microbatches),
              "change global_batch_size or micro_batch_size, or use " +
                  schedules_that(is_frugal, " or ", "\""));
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

void resolve_schedule_file(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!r.all_good({"parallelism.schedule", kField}) || p.schedule != kScheduleFromFile) return;
  if (p.schedule_file.empty()) {
    return r.problem("E0103", "parallelism.schedule",
                     "schedule \"file\" needs parallelism.schedule_file",
                     "name a CSV file, relative to the scenario's folder");
  }
  const std::string path = beside_scenario(r, p.schedule_file);
  r.scenario.files.push_back({kField, path});
  const std::optional<std::string> text = read_regular_file(path, kMaxBytes, r.problems);
  if (!text) return;
  ScheduleCsv csv = parse_schedule_csv(*text, path);
  const SourceText source{path, *text, false};
  for (const CsvProblem& problem : csv.problems) add(r, source, problem);
  if (!csv.problems.empty()) return;
  if (csv.num_left_out > 0) {
    r.scenario.warnings.push_back(
        text_of(csv.num_left_out) + " UNSHARD, RESHARD and REDUCE_GRAD cells of " +
        p.schedule_file +
        " are left out: zero_stage and its fields say when parameters are gathered and gradients "
        "reduced");
  }
  r.scenario.own_schedule = std::make_shared<const PipelineSchedule>(std::move(csv.schedule));
}

void check_schedule_file(Reading& r) {
  if (r.scenario.own_schedule == nullptr) return;
  const ParallelismSpec& p = r.scenario.parallelism;
  const PipelineShape& shape = r.scenario.own_schedule->shape;
  if (r.good("parallelism.pp") && p.pp != shape.num_ranks) {
    r.problem("E0206", "parallelism.pp",
              "schedule_file has " + text_of(shape.num_ranks) +
                  " lines, one per pipeline rank, but pp is " + text_of(p.pp),
              "set pp to " + text_of(shape.num_ranks));
  }
  if (r.good("parallelism.vpp") && p.vpp != shape.num_chunks) {
    r.problem("E0206", "parallelism.vpp",
              "schedule_file has " + text_of(shape.num_chunks) + " stages per rank, but vpp is " +
                  text_of(p.vpp),
              "leave vpp out");
  }
  const std::int64_t microbatches = r.scenario.training.num_microbatches;
  if (r.good("training.num_microbatches") && microbatches != shape.num_microbatches) {
    r.problem("E0204", "training.global_batch_size",
              "schedule_file has " + text_of(shape.num_microbatches) +
                  " microbatches, but there are " + text_of(microbatches),
              "change global_batch_size or micro_batch_size");
  }
}

void resolve_chunks(Reading& r) {
  ParallelismSpec& p = r.scenario.parallelism;
  std::int64_t chunks = 1;
  if (r.scenario.own_schedule != nullptr) {
    chunks = r.scenario.own_schedule->shape.num_chunks;
  } else if (r.good("parallelism.schedule")) {
    chunks = schedule_row_of(p.schedule).min_chunks;
  }
  derive(r, "parallelism.vpp", p.vpp, chunks);
}

void resolve_pipeline(Reading& r) {
  ParallelismSpec& p = r.scenario.parallelism;
  if (!r.all_good({"parallelism.pp", "parallelism.vpp"})) return;
  const std::string_view usual = p.pp > 1 ? default_schedule(p.vpp > 1).name : "none";
  derive(r, "parallelism.schedule", p.schedule, std::string(usual));
  if (!r.good("parallelism.schedule")) return;
  check_schedule_name(r);
  check_microbatches(r);
}

}  // namespace shardsim
