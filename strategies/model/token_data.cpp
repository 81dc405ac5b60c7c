#include "strategies/model/token_data.hpp"

#include "strategies/model/loss.hpp"

namespace shardsim {

namespace {

void fill(const Batch& batch, const TokenData& data, std::int64_t first, std::int64_t count) {
  const std::int64_t s = data.seq_len;
  const RandomStream tokens(data.seed, "data.tokens");
  const KeptTargets is_kept(data.seed, data.ignore_fraction);
  const auto bound = static_cast<std::uint64_t>(data.vocab_size);
  for (std::int64_t sample = 0; sample < count; ++sample) {
    const std::int64_t index = first + sample;
    for (std::int64_t position = 0; position <= s; ++position) {
      const std::uint64_t token =
          tokens.below(static_cast<std::uint64_t>(index * (s + 1) + position), bound);
      const auto value = static_cast<double>(token);
      if (position < s) batch.inputs.set(sample * s + position, value);
      if (position == 0) continue;
      const bool kept = is_kept(index * s + position - 1);
      batch.targets.set(sample * s + position - 1,
                        kept ? value : static_cast<double>(kIgnoredTarget));
    }
  }
}

}  // namespace

Batch make_token_batch(Runtime& runtime, const TokenData& data, std::int64_t first,
                       std::int64_t count) {
  const std::int64_t s = data.seq_len;
  Batch batch;
  batch.seed = data.seed;
  batch.first_sample = first;
  batch.inputs = runtime.allocate(MemoryCategory::activations, {count, s}, DType::int32);
  batch.targets = runtime.allocate(MemoryCategory::activations, {count, s}, DType::int32);
  runtime.off_the_clock([&] { fill(batch, data, first, count); });
  return batch;
}

KeptTargets::KeptTargets(std::uint64_t seed, double ignore_fraction)
    : random_(seed, "data.ignored"), ignore_fraction_(ignore_fraction) {}

bool KeptTargets::operator()(std::int64_t index) const {
  return random_.uniform(static_cast<std::uint64_t>(index)) >= ignore_fraction_;
}

std::int64_t count_kept(std::uint64_t seed, std::int64_t first, std::int64_t count,
                        double ignore_fraction) {
  if (ignore_fraction <= 0.0) return count;  // Plans count millions of targets.
  const KeptTargets is_kept(seed, ignore_fraction);
  std::int64_t kept = 0;
  for (std::int64_t index = first; index < first + count; ++index) kept += is_kept(index) ? 1 : 0;
  return kept;
}

}  // namespace shardsim
