#include "strategies/model/token_data.hpp"

#include "strategies/model/loss.hpp"

namespace shardsim {

namespace {

// Fills inputs and targets with tokens `ahead` positions further on; samples end.
void fill(const TokensAhead& tokens, const TokenData& data, std::int64_t first, std::int64_t count,
          std::int64_t ahead) {
  const std::int64_t s = data.seq_len;
  const RandomStream random(data.seed, "data.tokens");
  const KeptTargets is_kept(data.seed, data.ignore_fraction);
  const auto bound = static_cast<std::uint64_t>(data.vocab_size);
  const std::int64_t own = data.part.length(s);
  for (std::int64_t sample = 0; sample < count; ++sample) {
    const std::int64_t index = first + sample;
    const auto token_at = [&](std::int64_t position) {
      const auto place = static_cast<std::uint64_t>(index * (s + 1) + position);
      return static_cast<double>(random.below(place, bound));
    };
    for (std::int64_t local = 0; local < own; ++local) {
      const std::int64_t position = data.part.position_of(local, s) + ahead;
      const std::int64_t here = sample * own + local;
      const bool kept = position < s && is_kept(index * s + position);
      tokens.inputs.set(here, position <= s ? token_at(position) : 0.0);
      tokens.targets.set(here, kept ? token_at(position + 1) : static_cast<double>(kIgnoredTarget));
    }
  }
}

}  // namespace

Batch make_token_batch(Runtime& runtime, const TokenData& data, std::int64_t first,
                       std::int64_t count, int depths) {
  const Shape shape{count, data.part.length(data.seq_len)};
  const auto allocate = [&]() -> TokensAhead {
    Tensor inputs = new_activation(runtime, shape, DType::int32);
    return {std::move(inputs), new_activation(runtime, shape, DType::int32)};
  };
  Batch batch;
  batch.seed = data.seed;
  batch.first_sample = first;
  batch.part = data.part;
  const TokensAhead next = allocate();
  batch.inputs = next.inputs;
  batch.targets = next.targets;
  for (int depth = 0; depth < depths; ++depth) batch.ahead.push_back(allocate());
  runtime.off_the_clock([&] {
    fill(next, data, first, count, 0);
    for (int depth = 0; depth < depths; ++depth) {
      fill(batch.ahead[static_cast<std::size_t>(depth)], data, first, count, depth + 1);
    }
  });
  return batch;
}

std::int64_t count_kept(const TokenData& data, std::int64_t first, std::int64_t count, int ahead) {
  const std::int64_t s = data.seq_len;
  const std::int64_t own = data.part.length(s);
  const bool keeps_all = data.ignore_fraction <= 0.0;
  if (keeps_all && ahead == 0) return count * own;  // Plans count millions of targets.
  const KeptTargets is_kept(data.seed, data.ignore_fraction);
  std::int64_t kept = 0;
  for (std::int64_t local = 0; local < own; ++local) {
    const std::int64_t position = data.part.position_of(local, s) + ahead;
    if (position >= s) continue;
    for (std::int64_t sample = first; sample < first + count && !keeps_all; ++sample) {
      kept += is_kept(sample * s + position) ? 1 : 0;
    }
    if (keeps_all) kept += count;
  }
  return kept;
}

}  // namespace shardsim
