#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strategies/optimizer/rules.hpp"

#include "scenarios/field.hpp"
#include "scenarios/formats/foreign_object.hpp"

// Importers. The result of one is a scenario, field by field, and a table with the fate of every
// foreign name. Nothing is written into the scenario without a row.
namespace shardsim {

/// A field and another framework's name for it. Importers and emitters read the same rows.
struct NamePair {
  const char* theirs;  ///< "tensor_model_parallel_size"
  const char* ours;    ///< "parallelism.tp"
};

/// The fate of a foreign name.
enum class Fate : std::uint8_t { taken, derived, ignored, needs_you, measured };

struct ImportRow {
  Fate fate;
  ForeignValue theirs;  ///< Its name alone says what is missing there.
  std::string ours;     ///< Field and value here, or why there is none.
  std::string field{};  ///< The field alone, if one was written.
};

/// An object of a list: its fields, of which some are left out.
using ImportItem = std::vector<std::pair<std::string, FieldValue>>;

class Import {
 public:
  /// The same thing under our name.
  void take(const ForeignValue& theirs, const std::string& path, const FieldValue& ours);
  /// Follows from the foreign value. `why` completes the row, and may be empty.
  void derive(const ForeignValue& theirs, const std::string& path, const FieldValue& ours,
              const std::string& why = "");
  /// The same for a list of objects.
  void derive_list(const ForeignValue& theirs, const std::string& path,
                   const std::vector<ImportItem>& items);
  void ignore(const ForeignValue& theirs, const std::string& why) {
    rows_.push_back({Fate::ignored, theirs, why});
  }
  /// Each key that no reader has asked for.
  void ignore_rest(const ForeignObject& object, const std::string& why) {
    for (const std::string& key : object.rest()) ignore(object.at(key), why);
  }
  /// The file does not give it: `assumed` is written so that the scenario loads.
  void assume(const std::string& what, const std::string& path, const FieldValue& assumed,
              const std::string& why);
  /// The user must look at it; nothing is written.
  void warn(const ForeignValue& theirs, const std::string& why) {
    rows_.push_back({Fate::needs_you, theirs, why});
  }
  void measure(const ForeignValue& theirs, const std::string& note) {
    rows_.push_back({Fate::measured, theirs, note});
  }

  [[nodiscard]] bool has(const std::string& path) const { return fields_.count(path) > 0; }
  /// REQUIRES: has(path), and that it is a whole number.
  [[nodiscard]] std::int64_t integer(const std::string& path) const {
    return std::get<std::int64_t>(fields_.at(path));
  }
  /// REQUIRES: has(path), and that it is a text.
  [[nodiscard]] const std::string& text(const std::string& path) const {
    return std::get<std::string>(fields_.at(path));
  }
  void set_name(const std::string& name) { name_ = name; }

  /// The scenario's file; ends in a newline.
  [[nodiscard]] std::string scenario_json() const;
  [[nodiscard]] const std::vector<ImportRow>& rows() const { return rows_; }
  /// The rows as text; those that need the user come last.
  [[nodiscard]] std::string table() const;

 private:
  void write(const std::string& path, const FieldValue& value);

  std::string name_ = "imported";
  std::map<std::string, FieldValue> fields_;
  std::map<std::string, std::vector<ImportItem>> lists_;
  std::vector<std::string> order_;  // Fields in the order of their arrival.
  std::vector<ImportRow> rows_;
};

// Numbers of a file, an object or Megatron-LM's arguments, that are taken where it has them.

template <class File>
std::optional<std::int64_t> take_integer(File& file, const NamePair& pair,
                                         const ForeignRange& range, Import& import) {
  const std::optional<std::int64_t> value = file.integer(pair.theirs, range);
  if (value) import.take(file.at(pair.theirs), pair.ours, *value);
  return value;
}

template <class File>
bool take_number(File& file, const NamePair& pair, Import& import) {
  const std::optional<double> value = file.number(pair.theirs);
  if (value) import.take(file.at(pair.theirs), pair.ours, *value);
  return value.has_value();
}

/// "8", "0.5", "true", "bf16".
[[nodiscard]] std::string text_of_value(const FieldValue& value);

/// Reports all parts that a scenario cannot express. If there are any, throws UsageError E1355;
/// with `approximate`, each becomes a row that needs the user instead.
void refuse_or_warn(const std::vector<std::string>& inexpressible, const std::string& file,
                    bool approximate, Import& import);

/// "bf16" for PyTorch's "bfloat16"; `otherwise` for a type that nothing is trained in.
[[nodiscard]] std::string type_of_torch(const std::string& theirs, const char* otherwise);

/// The words of `shardsim import`.
struct ImportRequest {
  std::string kind;
  std::vector<std::string> files;
  std::string model;      ///< A config.json or a model preset, for kinds without a model.
  std::int64_t gpus = 0;  ///< 0: as the file gives it.
  std::string gpu;        ///< "h100": the preset dgx-h100.
  std::string system;     ///< A system preset.
  std::string output;     ///< The scenario's file; empty: standard output.
  bool approximate = false;
  bool plan = false;  ///< The layout and the batch are left to a search.

  /// The user's own presets are found beside the scenario.
  [[nodiscard]] std::string beside() const {
    return std::filesystem::path(output).parent_path().string();
  }
};

// An importer for each kind of file.

/// The model alone, as in config.json, and the precision of its weights. Throws as import_hf().
void import_hf_model(const std::string& file, bool approximate, Import& import);

/// `shardsim import hf`: the model as in the file; layout and batch are assumed. Throws
/// ScenarioError (E1354: an unknown family, keys missing) and UsageError (E1355: a scenario cannot
/// express it).
void import_hf(const ImportRequest& request, Import& import);

/// `shardsim import megatron`: reads a run's log, which has all arguments, or a launch script. The
/// run's measurements become rows of the table. Throws ScenarioError and UsageError.
void import_megatron(const ImportRequest& request, Import& import);

/// `shardsim import deepspeed`: ds_config.json, which gives neither the model (--model) nor the
/// machine. Throws ScenarioError (E1364: microbatch x accumulation x ranks is not the batch) and
/// UsageError (E1365: no model).
void import_deepspeed(const ImportRequest& request, Import& import);

/// `shardsim import torchtitan`: the configuration that a run has saved as JSON
/// (--job.save_config_file, later --debug.save_config_file). Throws ScenarioError (E1366: degrees
/// do not divide the GPUs, or batches the ranks) and UsageError (E1367: an unknown flavor).
void import_torchtitan(const ImportRequest& request, Import& import);

/// `shardsim import schedule`: a scenario around a schedule as PyTorch's pipelining writes it. The
/// file stays where it is and is named by parallelism.schedule_file. Throws ScenarioError E1368
/// with the cells that cannot be read.
void import_schedule(const ImportRequest& request, Import& import);

// Parts that importers share.

/// --model: a config.json, or the name of a model preset. Throws UsageError E1357 for neither.
void import_named_model(const std::string& model, bool approximate, Import& import);

/// The optimizer that a file calls `theirs`. AdamW stands in where there is none of that name here,
/// which is a row that needs the user.
void import_optimizer(const std::string& foreign, const std::string& theirs,
                      OptimizerAliases OptimizerNames::*framework, Import& import);

/// The number of GPUs in the foreign file.
struct ForeignGpus {
  std::int64_t count = 0;  ///< 0: not given.
  std::string name;        ///< "world_size".
};

/// Writes the scenario's system and returns its GPUs. Options win over the file; values that
/// neither gives are assumed. Throws UsageError E1351: no such GPU, or the GPUs do not fill nodes.
std::int64_t import_system(const ImportRequest& request, const ForeignGpus& foreign,
                           Import& import);

}  // namespace shardsim
