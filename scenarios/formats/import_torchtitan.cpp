#include "scenarios/formats/import_torchtitan.hpp"

#include <algorithm>
#include <array>

#include "sim/kernel/error.hpp"

#include "scenarios/formats/import_hf.hpp"
#include "scenarios/formats/import_system.hpp"
#include "scenarios/formats/torchtitan_batch.hpp"
#include "scenarios/formats/torchtitan_rows.hpp"

namespace shardsim {

namespace {

struct Flavor {
  const char* model;
  const char* flavor;
  const char* preset;
};

// Flavors that equal a preset's model, to the last parameter.
constexpr std::array kFlavors = {
    Flavor{"llama3", "8B", "llama3-8b"},
    Flavor{"llama3", "70B", "llama3-70b"},
    Flavor{"llama3", "405B", "llama3-405b"},
};

void import_flavor(ForeignObject& model, const ImportRequest& request, Import& import) {
  const std::string name = model.text("name").value_or("");
  const std::string flavor = model.text("flavor").value_or("");
  if (!request.model.empty()) {
    import.ignore(model.name_of("flavor"), name + " " + flavor, "--model is given");
    import_named_model(request.model, request.approximate, import);
    return;
  }
  const auto* found = std::find_if(kFlavors.begin(), kFlavors.end(), [&](const Flavor& each) {
    return name == each.model && flavor == each.flavor;
  });
  if (found == kFlavors.end()) {
    throw UsageError("E1367",
                     "the file names the model " + name + ", flavor " + flavor +
                         ", whose sizes are in torchtitan's code",
                     "add --model config.json (Hugging Face) or a model preset");
  }
  import.derive(model.name_of("name") + ", flavor", name + ", " + flavor, "model.preset",
                std::string(found->preset));
}

}  // namespace

void import_torchtitan(const ImportRequest& request, Import& import) {
  const std::unique_ptr<ForeignFile> file = read_foreign_json(request.files.front());
  ForeignObject root(&file->root);
  ForeignObject model = root.inner("model");
  ForeignObject training = root.inner("training");
  ForeignObject parallelism = root.inner("parallelism");
  const TitanBatch batch = read_titan_batch(training, import);
  import_flavor(model, request, import);
  const std::int64_t gpus = import_system(request, {}, import);
  const std::int64_t data = write_titan_layout(parallelism, gpus, import);
  write_titan_batch(training, parallelism, batch, data, import);
  write_titan_training(training, import);
  write_titan_rest(root, import);
  for (const ForeignObject* section : {&model, &training, &parallelism}) {
    for (const std::string& key : section->rest()) {
      import.ignore(section->name_of(key), section->written(key), "not modelled");
    }
  }
  for (const std::string& key : root.rest()) {
    import.ignore(key, "{...}", "says nothing about cost");
  }
}

}  // namespace shardsim
