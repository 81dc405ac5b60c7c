#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/emit.hpp"
#include "scenarios/formats/megatron.hpp"
#include "scenarios/model_spec.hpp"
#include "scenarios/scenario.hpp"

// The command line of Megatron-LM, while it is being written.
namespace shardsim {

/// Notes ahead of settings, and parts of the model that those cannot say, which are notes, too.
class Remarks {
 public:
  void note(const std::string& words) { notes_ += "# " + words + "\n"; }
  void lacks(const std::string& words) {
    note(words);
    unsaid_.push_back(words);
  }
  [[nodiscard]] Emission ahead_of(const std::string& settings) const {
    return {notes_ + settings, unsaid_};
  }

 private:
  std::string notes_;
  std::vector<std::string> unsaid_;
};

class Flags : public Remarks {
 public:
  void flag(const std::string& name) { lines_.push_back(megatron::flag_of(name)); }
  void flag(const NamePair& pair) { flag(std::string(pair.theirs)); }
  template <class Value>
  void flag(const std::string& name, const Value& value) {
    lines_.push_back(fmt::format("{} {}", megatron::flag_of(name), value));
  }
  template <class Value>
  void flag(const NamePair& pair, const Value& value) {
    flag(std::string(pair.theirs), value);
  }
  [[nodiscard]] Emission all(const std::string& start) const {
    std::string text = start;
    for (const std::string& line : lines_) text += " \\\n  " + line;
    return ahead_of(text + "\n");
  }

 private:
  std::vector<std::string> lines_;
};

/// The flags of a model with its experts.
void add_model(const ModelSpec& model, Flags& flags);
void add_experts(const ModelSpec& model, Flags& flags);
/// Products in low precision.
void add_low_precision(const Scenario& scenario, Flags& flags);
/// How tokens travel to experts of other nodes.
void add_payload(const ParallelismSpec& parallelism, Flags& flags);
/// The type of moments, if it is not that of the weights they update.
void add_state_dtype(const Scenario& scenario, Flags& flags);
/// Mixers, feed-forwards, windows, sinks and positions of layers.
void add_layers(const Scenario& scenario, Flags& flags);
/// Whether Megatron-LM has these layers as letters of a pattern alone: some are of one branch, or
/// of Mamba-2. Their stages are the pattern's bars.
[[nodiscard]] bool is_lettered(const ModelSpec& model);
/// Whether attention has rotary positions somewhere. REQUIRES: a llama.
[[nodiscard]] bool turns_in_some_layer(const ModelSpec& model);
/// Activation, norms and factors; biases. REQUIRES: a llama.
void add_block_shape(const ModelSpec& model, Flags& flags);
void add_biases(const ModelSpec& model, Flags& flags);
/// Whether each linear layer of the blocks has a bias.
[[nodiscard]] bool has_all_biases(const ModelSpec& model);

}  // namespace shardsim
