#include "strategies/model/shared_sum.hpp"

namespace shardsim {

void round_shared_sum(Runtime& runtime, const Tensor& y, SumOver sum) {
  const StochasticRounding* const drawn = StochasticRounding::active();
  if (drawn == nullptr) return;
  runtime.off_the_clock([&] {
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      y.set(i, drawn->round_more(y.get(i), y.dtype(), sum));
    }
  });
}

}  // namespace shardsim
