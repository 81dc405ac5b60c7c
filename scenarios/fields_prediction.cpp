#include "scenarios/field_table.hpp"

// Multi-token prediction.
namespace shardsim {

namespace {

bool predicts_further(const Scenario& s) { return s.model.mtp_num_layers > 0; }

}  // namespace

std::vector<Field> prediction_fields() {
  using M = ModelSpec;
  return {
      field("model.mtp_num_layers", &Scenario::model, &M::mtp_num_layers)
          .range(0, 16)
          .or_else("0")
          .same_as({{"Hugging Face", "num_nextn_predict_layers"},
                    {"Hugging Face", "mtp_num_hidden_layers"}})
          .doc("Depths of multi-token prediction (DeepSeek-V3): each has a projection, a block as "
               "the last layer is, and a loss of one more token ahead. They are on the last "
               "pipeline stage, which also has the token embedding then."),
      field("model.mtp_loss_scaling_factor", &Scenario::model, &M::mtp_loss_scaling_factor)
          .above(0, 1024)
          .or_else("0.1")
          .acts_when("mtp_num_layers is above 0", predicts_further)
          .of_values()
          .doc("Weight of all these losses together, beside that of the next token. Each is a mean "
               "over its own targets."),
  };
}

}  // namespace shardsim
