#include "sim/kernel/random.hpp"

#include "sim/kernel/hash.hpp"

namespace shardsim {

// Constants from the paper.
PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32U) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32U) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

namespace {

PhiloxBlock block_of(std::uint64_t key, std::uint64_t index, std::uint32_t lane) {
  const PhiloxBlock counter = {static_cast<std::uint32_t>(index),
                               static_cast<std::uint32_t>(index >> 32U), lane, 0};
  return philox4x32(counter, static_cast<std::uint32_t>(key),
                    static_cast<std::uint32_t>(key >> 32U));
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name)
    : key_(hash_text(name, seed)) {}

std::uint64_t RandomStream::bits(std::uint64_t index) const {
  const PhiloxBlock block = block_of(key_, index, 0);
  return (std::uint64_t{block[1]} << 32U) | block[0];
}

double RandomStream::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11U) * 0x1p-53;
}

std::uint64_t RandomStream::below(std::uint64_t index, std::uint64_t bound) const {
  // Multiply-shift; the bias is at most bound / 2^64.
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{bits(index)} * bound) >> 64U);
}

double RandomStream::bell(std::uint64_t index) const {
  std::uint64_t sum = 0;
  for (std::uint32_t lane = 1; lane <= 3; ++lane) {
    for (const std::uint32_t word : block_of(key_, index, lane)) sum += word;
  }
  return static_cast<double>(sum) * 0x1p-32 - 6.0;
}

}  // namespace shardsim
