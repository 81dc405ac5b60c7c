#include "sim/hardware/kernels/price_cache.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kEntries = 1024;  // A power of two.

// All that a price depends on; names do not matter.
bool same_work(const ComputeOp& a, const ComputeOp& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.flops == b.flops && a.bytes == b.bytes &&
         a.shape == b.shape;
}

// The place of a price; it does not decide the price.
std::size_t place_of(const ComputeOp& op) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = static_cast<std::uint64_t>(op.flops);
  mixed = (mixed ^ static_cast<std::uint64_t>(op.bytes)) * kOdd;
  mixed = (mixed ^ static_cast<std::uint64_t>(op.shape.k)) * kOdd;
  mixed = (mixed ^ static_cast<std::uint64_t>(op.shape.m)) * kOdd;
  mixed ^= static_cast<std::uint64_t>(op.shape.family);
  return static_cast<std::size_t>(mixed * kOdd >> 54U);
}

}  // namespace

PriceCache::PriceCache(const Device& device, double slowdown)
    : device_(device), slowdown_(slowdown) {
  if (device.kernels != nullptr) entries_.resize(kEntries);
}

Price PriceCache::price(const ComputeOp& op) {
  const auto ask = [&]() -> Price {
    return {device_.price(op, slowdown_), device_.issue_price(op)};
  };
  if (entries_.empty()) return ask();  // A roofline is as fast.
  Entry& entry = entries_[place_of(op)];
  if (!entry.is_used || !same_work(entry.op, op)) entry = {op, ask(), true};
  return entry.price;
}

}  // namespace shardsim
