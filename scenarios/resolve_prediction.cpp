#include <string>

#include "scenarios/resolve.hpp"

namespace shardsim {

void resolve_prediction(Reading& r) {
  constexpr const char* kDepths = "model.mtp_num_layers";
  const ModelSpec& m = r.scenario.model;
  if (!r.all_good({kDepths, "model.family", "model.seq_len"}) || m.mtp_num_layers == 0) return;
  if (m.family != ModelFamily::llama) {
    r.problem("E0201", kDepths,
              std::string("family ") + to_string(m.family) + " has no multi-token prediction",
              "leave it out, or use the llama family");
    return;
  }
  if (m.mtp_num_layers >= m.seq_len) {
    r.problem("E0201", kDepths,
              "a sample of " + text_of(m.seq_len) + " tokens has no token " +
                  text_of(m.mtp_num_layers + 1) + " ahead",
              "lower it, or raise seq_len");
  }
}

}  // namespace shardsim
