#include "strategies/model/dropout.hpp"

#include "sim/kernel/random.hpp"

namespace shardsim {

namespace {

std::string name_of(const DropoutSite& site) {
  const std::string branch = std::string(site.branch) + ".dropout";
  return site.block < 0 ? branch : "blocks." + std::to_string(site.block) + "." + branch;
}

// to = from where it is kept, scaled up.
void mask(const Dropout& dropout, const DropoutSite& site, std::int64_t first_row,
          const Tensor& from, const Tensor& to) {
  const RandomStream random(dropout.seed, name_of(site));
  const double scale = 1.0 / (1.0 - dropout.rate);
  const std::int64_t width = last_dim(from);
  for (std::int64_t row = 0; row < num_rows(from); ++row) {
    const std::int64_t token =
        dropout.first_token + dropout.part.token_of(first_row + row, dropout.seq_len);
    for (std::int64_t i = 0; i < width; ++i) {
      const auto index = static_cast<std::uint64_t>(token * width + i);
      const bool is_kept = random.uniform(index) >= dropout.rate;
      to.set(row * width + i, is_kept ? from.get(row * width + i) * scale : 0.0);
    }
  }
}

}  // namespace

void dropout_forward(Runtime& runtime, const Dropout& dropout, const DropoutSite& site,
                     std::int64_t first_row, const Tensor& y) {
  if (dropout.rate <= 0.0) return;
  runtime.compute(memory_op("dropout", y.dtype(), 2 * y.num_bytes(), KernelFamily::dropout),
                  [&] { mask(dropout, site, first_row, y, y); });
}

Tensor dropout_backward(Runtime& runtime, const Dropout& dropout, const DropoutSite& site,
                        std::int64_t first_row, const Tensor& dy) {
  if (dropout.rate <= 0.0) return dy;
  Tensor dx = runtime.allocate(MemoryCategory::activations, dy.shape(), dy.dtype());
  const std::int64_t bytes = dy.num_bytes() + dx.num_bytes();
  const KernelFamily family = KernelFamily::dropout_backward;
  runtime.compute(memory_op("dropout_backward", dy.dtype(), bytes, family),
                  [&] { mask(dropout, site, first_row, dy, dx); });
  return dx;
}

}  // namespace shardsim
