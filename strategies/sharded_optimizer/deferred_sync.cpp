#include "strategies/sharded_optimizer/deferred_sync.hpp"

namespace shardsim {

void DeferredSync::finish_gradients() {
  for (int chunk = model_.num_chunks(); chunk-- > 0;) {
    inner_.begin_weight_gradients(chunk, true);
    const ModuleRange modules = model_.modules_of_chunk(chunk);
    for (int i = modules.count; i-- > 0;) inner_.after_weight_gradients(modules.first + i);
  }
  inner_.finish_gradients();
}

}  // namespace shardsim
