#include "strategies/model/shared_sum.hpp"

namespace shardsim {

void round_shared_sum(const Tensor& y, SumOver sum) {
  const StochasticRounding* const drawn = StochasticRounding::active();
  if (drawn == nullptr || !y.defined() || !y.has_data()) return;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    y.set(i, drawn->round_more(y.get(i), y.dtype(), sum));
  }
}

}  // namespace shardsim
