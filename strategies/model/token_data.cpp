#include "strategies/model/token_data.hpp"

#include "strategies/model/loss.hpp"

namespace shardsim {

namespace {

void fill(const Batch& batch, const TokenData& data, std::int64_t first, std::int64_t count) {
  const std::int64_t s = data.seq_len;
  const RandomStream tokens(data.seed, "data.tokens");
  const KeptTargets is_kept(data.seed, data.ignore_fraction);
  const auto bound = static_cast<std::uint64_t>(data.vocab_size);
  const std::int64_t own = data.part.length(s);
  for (std::int64_t sample = 0; sample < count; ++sample) {
    const std::int64_t index = first + sample;
    const auto token_at = [&](std::int64_t position) {
      const auto place = static_cast<std::uint64_t>(index * (s + 1) + position);
      return static_cast<double>(tokens.below(place, bound));
    };
    for (std::int64_t local = 0; local < own; ++local) {
      const std::int64_t position = data.part.position_of(local, s);
      const bool kept = is_kept(index * s + position);
      batch.inputs.set(sample * own + local, token_at(position));
      batch.targets.set(sample * own + local,
                        kept ? token_at(position + 1) : static_cast<double>(kIgnoredTarget));
    }
  }
}

}  // namespace

Batch make_token_batch(Runtime& runtime, const TokenData& data, std::int64_t first,
                       std::int64_t count) {
  const std::int64_t own = data.part.length(data.seq_len);
  Batch batch;
  batch.seed = data.seed;
  batch.first_sample = first;
  batch.part = data.part;
  batch.inputs = new_activation(runtime, {count, own}, DType::int32);
  batch.targets = new_activation(runtime, {count, own}, DType::int32);
  runtime.off_the_clock([&] { fill(batch, data, first, count); });
  return batch;
}

std::int64_t count_kept(const TokenData& data, std::int64_t first, std::int64_t count) {
  const std::int64_t own = data.part.length(data.seq_len);
  if (data.ignore_fraction <= 0.0) return count * own;  // Plans count millions of targets.
  const KeptTargets is_kept(data.seed, data.ignore_fraction);
  std::int64_t kept = 0;
  for (std::int64_t token = first * own; token < (first + count) * own; ++token) {
    kept += is_kept(data.part.token_of(token, data.seq_len)) ? 1 : 0;
  }
  return kept;
}

}  // namespace shardsim
