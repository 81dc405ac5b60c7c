#include "scenarios/load.hpp"

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "strategies/gradient_sync/compressors.hpp"
#include "strategies/optimizer/rules.hpp"

#include "scenarios/hugging_face.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/reading.hpp"
#include "scenarios/stage_places.hpp"
#include "scenarios/sweep_block.hpp"

namespace shardsim {

namespace {

// Bits that a type has beside the sign (IEEE 754; bf16 is the upper half of fp32).
struct Bits {
  int exponent = 0;
  int mantissa = 0;
};

// In the order of DType; whole numbers have none.
constexpr std::array<Bits, 8> kBits = {{{11, 52}, {8, 23}, {8, 7}, {5, 10}, {4, 3}}};

Bits bits_of(DType precision) { return kBits.at(static_cast<std::size_t>(precision)); }

bool names_preset(const Field& field) {
  const Section* section = find_section(parent_path(field.path));
  return section != nullptr && !section->preset_folder.empty() &&
         field.path == section->path + ".preset";
}

void warn_without_effect(Reading& r) {
  for (const std::string& path : r.scenario.chosen) {
    const Field& field = *find_field(path);
    std::string& warning = r.scenario.warnings.emplace_back(path + " has no effect here: ");
    if (field.acts && !field.acts(r.scenario)) {
      warning += "it acts only when " + field.acts_words;
    } else if (names_preset(field)) {
      const std::string section = parent_path(path);
      warning += "the scenario gives all that this preset would; --set " + section + "=" +
                 (section == "system" ? R"('{"preset": "NAME", "nodes": 1}')" : "NAME") +
                 " replaces it all";
    } else if (field.derives_only) {
      warning += "the result is the same without it";
    } else {
      r.scenario.warnings.pop_back();  // The run reports it.
    }
  }
}

void warn_about_precision(Reading& r) {
  const TrainingSpec& t = r.scenario.training;
  if (has_narrow_gradients(t) && t.loss_scaling == LossScaling::Mode::none) {
    const char* const field =
        t.precision == Precision::fp16 ? "training.precision" : "training.grad_reduce_dtype";
    r.scenario.warnings.push_back(
        std::string(field) +
        " is fp16, and training runs without loss scaling: small gradients become 0, large ones "
        "infinite; leave training.loss_scaling out, or use bf16");
  }
  const Bits own = bits_of(t.dtype());
  const Bits reduced = bits_of(t.grad_reduce_dtype);
  const std::string names = std::string("training.grad_reduce_dtype is ") +
                            to_string(t.grad_reduce_dtype) + ", and gradients are " +
                            to_string(t.precision) + ": ";
  if (reduced.exponent < own.exponent) {
    r.scenario.warnings.push_back(names + "what is beyond its range is lost before the reduction");
  } else if (reduced.mantissa < own.mantissa) {
    r.scenario.warnings.push_back(names + "digits are lost before the reduction");
  }
}

// People easily forget that another field sets the number of chunks.
void warn_about_chunks(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ScheduleRow& schedule = schedule_row_of(p.schedule);
  if (!schedule.takes_chunks() || p.vpp > 1 || p.pp == 1) return;
  r.scenario.warnings.push_back(
      "parallelism.schedule is " + p.schedule +
      ", which idles less by running several model chunks per rank, but parallelism.vpp is 1: " +
      std::string(schedule.with_one_chunk) + "; set parallelism.vpp to 2 or more");
}

// No score depends on the bias of a key, so its gradient is rounding around zero. If weight decay
// is added to the gradient, a step multiplies so small a bias by 1 - learning_rate * weight_decay /
// epsilon. Beyond -1, rounding grows from step to step until it is as large as any update. (Adam's
// momentum only dampens that at first.) The oracle's reference starts each step from the ranks'
// state, which prevents harm. References of other algorithms do not.
void warn_about_decay(Reading& r) {
  const TrainingSpec& t = r.scenario.training;
  const double decay = t.learning_rate * t.weight_decay;
  if (r.scenario.model.family != ModelFamily::gpt2 ||
      !optimizer_rule(t.elementwise_optimizer()).divides_decay() ||
      !r.scenario.parallelism.changes_algorithm() ||
      r.scenario.execution.tensors != TensorMode::real || decay <= 2 * t.epsilon) {
    return;
  }
  const std::string decoupled = names_of_optimizers([](const OptimizerRule& rule) {
    return rule.decouples_decay && !rule.takes_signs;  // The latter have a warning of their own.
  });
  r.scenario.warnings.push_back(
      "training.weight_decay is part of the gradient in " + t.optimizer +
      ", and that of a key's bias in gpt2 is else nothing but rounding, which steps of "
      "learning_rate x weight_decay / epsilon above 2 blow up from step to step: with this data "
      "parallelism the oracle then fails a correct strategy; use " +
      decoupled + ", no training.weight_decay, or training.epsilon=" +
      fmt::format("{:.3g}", decay));  // Far from the limit, so that a few digits will do.
}

// The same bias under an optimizer that moves every weight equally far: the sign of rounding is
// another one in another order of sums.
void warn_about_signs(Reading& r) {
  const TrainingSpec& t = r.scenario.training;
  if (r.scenario.model.family != ModelFamily::gpt2 ||
      !optimizer_rule(t.elementwise_optimizer()).takes_signs ||
      !r.scenario.parallelism.changes_algorithm() ||
      r.scenario.execution.tensors != TensorMode::real) {
    return;
  }
  const std::string others =
      names_of_optimizers([](const OptimizerRule& rule) { return !rule.takes_signs; });
  r.scenario.warnings.push_back(
      "training.optimizer " + t.optimizer +
      " moves each weight by the sign of its gradient, and that of a key's bias in gpt2 is nothing "
      "but rounding: with this data parallelism the oracle then fails a correct strategy; use " +
      others);
}

// A plan reports the times of the last step, and steps of replicas that train apart are not all
// alike.
void warn_about_period(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const std::int64_t steps = r.scenario.execution.steps;
  const bool is_plan = r.scenario.execution.tensors == TensorMode::meta;
  if (!p.trains_apart() || !is_plan || steps % p.sync_period == 0) return;
  r.scenario.warnings.push_back(
      "execution.steps (" + std::to_string(steps) +
      ") ends no period of parallelism.sync_period (" + std::to_string(p.sync_period) +
      "): the times reported are those of the last step, in which replicas average nothing; "
      "use a multiple to see what averaging costs");
}

// A parcel for all others is sent to each of them; an all_reduce of n bytes sends less than 2 n.
void warn_about_compression(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!p.compresses() || p.data_parallel_size() == 1) return;
  const CompressorRow& compressor = *p.compression.compressor;
  if (!compressor.route.to_all) return;
  const auto ranks = static_cast<double>(p.data_parallel_size());
  const Bits bits = bits_of(r.scenario.training.grad_reduce_dtype);
  const double element = (1 + bits.exponent + bits.mantissa) / 8.0;
  const double compressed = compressor.parcel_bytes(p.compression, ranks - 1.0, element);
  const double whole = 2.0 * (ranks - 1.0) / ranks * element;
  if (compressed < whole) return;
  const char* const smaller = compressor.reads_ratio ? "a smaller compression_ratio, or " : "";
  const std::string others =
      names_of_compressors([](const CompressorRow& row) { return !row.route.to_all; });
  r.scenario.warnings.push_back(
      "parallelism.gradient_compression " + std::string(compressor.name) +
      " saves nothing here: its shares, which every rank sends to all of " +
      std::to_string(p.data_parallel_size()) + ", are " +
      fmt::format("{:.3g}", compressed / whole) + " times the bytes of whole gradients; use " +
      smaller + others);
}

// Appends to scenario.warnings. A field without effect is named only if somebody chose it.
// REQUIRES: resolve() found no problem, and scenario.chosen is filled.
void warn(Reading& reading) {
  warn_without_effect(reading);
  warn_about_chunks(reading);
  warn_about_precision(reading);
  warn_about_decay(reading);
  warn_about_signs(reading);
  warn_about_period(reading);
  warn_about_compression(reading);
}

// A result does not rest on the neutral value of a correction or of a fault.
bool corrects_nothing(const std::string& path, const FieldState& state) {
  const bool is_neutral = path.rfind("system.nccl.", 0) == 0 || path.rfind("faults.", 0) == 0;
  return is_neutral && !state.given;
}

// A plain run ignores the sweep, but reports the problems in it.
void leave_sweep_out(JsonValue& document, ProblemList& problems) {
  if (document.find("sweep") == nullptr) return;
  [[maybe_unused]] const SweepBlock checked = read_sweep(take_sweep(document), problems);
}

// The sources of all numbers of model and system, in the order of the table.
std::vector<NumberSource> collect_sources(const Reading& reading) {
  std::vector<NumberSource> sources;
  for (const Field& field : field_table()) {
    const FieldState& state = reading.state(field.path);
    if (field.is_sourced && is_meaningful(field, reading.scenario) && !state.source.empty() &&
        !corrects_nothing(field.path, state)) {
      sources.push_back({field.path, state.source});
    }
  }
  return sources;
}

// The text that is loaded, its file's name and the flags that override it.
struct Sources {
  const std::string& text;
  const std::string& file_name;
  const std::vector<std::string>& overrides;
};

void refuse_model_file(const SourceText& source, ProblemList& problems) {
  problems.add("E0114", Span{&source, 0, 1}, "",
               printable(source.name) + " is a model's config.json of Hugging Face, not a scenario",
               "shardsim import hf makes a scenario of it, and shardsim plan finds a "
               "layout for it");
}

// Whether this is a model's config.json with what Python writes for a limit that there is not. As a
// scenario it would be an error of syntax.
bool has_infinity_of_python(const SourceText& source) {
  if (source.text.find("Infinity") == std::string::npos) return false;
  ProblemList ignored;
  const auto document = parse_json(source, ignored, {.has_infinity = true});
  return document.has_value() && is_hugging_face_config(*document);
}

// Fills `reading`. The field `left_out` is read as if neither file nor flag had set it.
void read(const Sources& sources, const std::string& left_out, SourceTexts& texts,
          Reading& reading) {
  reading.folder = std::filesystem::path(sources.file_name).parent_path().string();
  const SourceText& source = texts.emplace_back(SourceText{sources.file_name, sources.text, false});
  if (has_infinity_of_python(source)) return refuse_model_file(source, reading.problems);
  std::optional<JsonValue> document = parse_json(source, reading.problems);
  if (!document.has_value()) return;
  if (is_hugging_face_config(*document)) return refuse_model_file(source, reading.problems);
  if (document->is_object()) {
    apply_overrides(*document, sources.overrides, texts, reading.problems);
    leave_sweep_out(*document, reading.problems);
    if (!left_out.empty()) remove_path(*document, left_out);
    const MergedPresets merged =
        merge_presets(*document, preset_directories(reading.folder), texts, reading.problems);
    reading.broken.insert(merged.broken.begin(), merged.broken.end());
    reading.idle_presets.insert(merged.idle.begin(), merged.idle.end());
  }
  for (const SourceText& text_read : texts) {
    if (text_read.preset) reading.scenario.files.push_back({"a preset", text_read.name});
  }
  read_document(*document, reading);
  resolve(reading);
}

// Fields that describe a device, such as its peak in each precision: a run need not use them all.
bool describes_device(const Field& field) { return field.path.rfind("system.device.", 0) == 0; }

bool has_preset(const Scenario& scenario, const std::string& path) {
  const std::string section = path.substr(0, path.find('.'));
  return (section == "model" && !scenario.model.preset.empty()) ||
         (section == "system" && !scenario.system.preset.empty());
}

// The effect of a field that the user wrote. none: no effect. required, value: the field's own
// value, which the scenario must or need not state. derives: also other fields that are derived
// from it.
enum class Choice { none, required, value, derives };

bool is_idle(const Field& field, const Scenario& scenario) {
  return field.acts && !field.acts(scenario);
}

Choice choice_of(const Field& field, const Reading& reading, const Sources& sources) {
  const FieldState& state = reading.state(field.path);
  if (!written_by_user(state) || !state.written) return Choice::none;
  if (names_preset(field) && !reading.idle_presets.contains(parent_path(field.path))) {
    return Choice::derives;
  }
  // A required field is no choice, unless a flag sets it. Nor is a preset: it tells what values of
  // a plan were made from.
  const Choice demanded = state.span.source->flag ? Choice::value : Choice::required;
  const Scenario& scenario = reading.scenario;
  const FieldValue& value = *state.written;
  if (!has_preset(scenario, field.path)) {
    if (field.is_required || describes_device(field)) return demanded;
    const bool may_derive = field.derives_only || is_idle(field, scenario);
    if (!field.default_json.empty() && !may_derive) {
      return value == default_of(field) ? Choice::none : Choice::value;
    }
  }
  SourceTexts texts;
  Reading without;
  without.limits = reading.limits;
  read(sources, field.path, texts, without);
  if (!without.problems.empty()) return field.derives_only ? Choice::derives : demanded;
  if (field.get(without.scenario) == value) return Choice::none;
  Scenario as_written = scenario;
  field.set(as_written, value);
  field.set(without.scenario, value);
  if (write_resolved(without.scenario) != write_resolved(as_written)) return Choice::derives;
  return names_preset(field) ? demanded : Choice::value;
}

// Marks all fields: a choice may lose against any of them, and the winner is then named. Without a
// choice nothing is marked, and noting costs nothing.
void mark_all(Scenario& scenario) {
  for (const Field& field : field_table()) {
    if (field.set_mark != nullptr) field.set_mark(scenario, mark_of(field));
  }
}

// Finds the chosen fields that a run may not need. A field that derives others acts through them.
void find_chosen(Reading& reading, const Sources& sources) {
  Scenario& scenario = reading.scenario;
  for (const Field& field : field_table()) {
    if (field.get == nullptr) continue;
    const bool idles = is_idle(field, scenario);
    if (field.set_mark == nullptr && !field.is_of_values && !field.derives_only && !idles) continue;
    const Choice choice = choice_of(field, reading, sources);
    if (choice == Choice::none || (choice == Choice::derives && (idles || field.derives_only))) {
      continue;
    }
    if (choice == Choice::required && field.set_mark == nullptr) continue;
    (choice == Choice::required ? scenario.required : scenario.chosen).push_back(field.path);
    if (field.set_mark != nullptr) mark_all(scenario);
  }
}

}  // namespace

Scenario load_scenario_text(const std::string& text, const std::string& file_name,
                            const std::vector<std::string>& overrides, const LoadLimits& limits) {
  Reading reading;
  reading.limits = limits;
  SourceTexts texts;
  const Sources sources{text, file_name, overrides};
  read(sources, "", texts, reading);
  reading.problems.throw_if_any();
  find_chosen(reading, sources);
  warn(reading);
  reading.scenario.sources = collect_sources(reading);
  reading.scenario.resolved_json = write_resolved(reading.scenario);
  return std::move(reading.scenario);
}

Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides,
                       const LoadLimits& limits) {
  return load_scenario_text(read_regular_file(path, JsonLimits{}.max_bytes), path, overrides,
                            limits);
}

}  // namespace shardsim
