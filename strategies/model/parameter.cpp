#include "strategies/model/parameter.hpp"

#include "sim/kernel/random.hpp"

namespace shardsim {

namespace {

double initial_value(const Init& init, const RandomStream& random, std::uint64_t index) {
  switch (init.kind) {
    case Init::Kind::zeros:
      return 0.0;
    case Init::Kind::ones:
      return 1.0;
    case Init::Kind::bell:
      return init.scale * random.bell(index);
    case Init::Kind::integers: {
      const auto bound = static_cast<std::uint64_t>(init.scale);
      return static_cast<double>(random.below(index, 2 * bound + 1)) - static_cast<double>(bound);
    }
  }
  return 0.0;
}

}  // namespace

void initialize(const ParameterSpec& spec, std::uint64_t seed, std::int64_t first,
                const Tensor& values) {
  const RandomStream random(seed, spec.name);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.set(i, initial_value(spec.init, random, static_cast<std::uint64_t>(first + i)));
  }
}

}  // namespace shardsim
