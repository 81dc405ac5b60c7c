#include <cmath>
#include <limits>
#include <set>

#include <catch2/catch.hpp>

#include "sim/kernel/call_site.hpp"
#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/dtype.hpp"
#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/random.hpp"
#include "sim/kernel/time.hpp"

namespace shardsim {
namespace {

CallSite called_from(CallSite site = CallSite::here()) { return site; }

// The correct rounding of `value` to the neighbours given by `from_bits`, found by search.
template <class FromBits>
std::uint16_t nearest_bits(double value, FromBits from_bits) {
  std::uint16_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const double candidate = from_bits(static_cast<std::uint16_t>(bits));
    if (!std::isfinite(candidate) || std::signbit(candidate) != std::signbit(value)) continue;
    const double distance = std::fabs(candidate - value);
    const bool even = (bits & 1U) == 0;
    if (distance < best_distance || (distance == best_distance && even)) {
      best = static_cast<std::uint16_t>(bits);
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace

TEST_CASE("time rounds a price once and refuses what does not fit") {
  CHECK(Time::from_seconds(1e-12).picoseconds() == 1);
  CHECK(Time::from_seconds(1.4e-12).picoseconds() == 1);
  CHECK(Time::from_seconds(1.5e-12).picoseconds() == 2);
  CHECK(Time::from_seconds(0.0).picoseconds() == 0);
  CHECK_THROWS_AS(Time::from_seconds(1e8), LimitError);
  CHECK_THROWS_AS(Time::from_seconds(-1.0), LimitError);
  CHECK_THROWS_AS(Time::from_seconds(std::nan("")), LimitError);
  const Time most = Time::from_picoseconds(std::numeric_limits<std::int64_t>::max());
  CHECK_THROWS_AS(most + Time::from_picoseconds(1), LimitError);
}

TEST_CASE("a call site names the caller, not the callee") {
  const CallSite site = called_from();
  CHECK(site.line == __LINE__ - 1);
  CHECK(std::string(site.file) == "tests/kernel/kernel_basics_test.cpp");
}

TEST_CASE("every 16-bit pattern survives the way through float") {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float fp16 = from_fp16_bits(pattern);
    const float bf16 = from_bf16_bits(pattern);
    if (!std::isnan(fp16)) REQUIRE(to_fp16_bits(fp16) == pattern);
    if (!std::isnan(bf16)) REQUIRE(to_bf16_bits(bf16) == pattern);
    REQUIRE(std::isnan(fp16) == std::isnan(from_fp16_bits(to_fp16_bits(fp16))));
    REQUIRE(std::isnan(bf16) == std::isnan(from_bf16_bits(to_bf16_bits(bf16))));
  }
}

TEST_CASE("16-bit rounding is to nearest, ties to even, once from double") {
  const RandomStream random(7, "rounding");
  for (std::uint64_t i = 0; i < 300; ++i) {
    const double value = (random.uniform(2 * i) - 0.5) * (i % 3 == 0 ? 1e-6 : 100.0);
    REQUIRE(to_fp16_bits(value) == nearest_bits(value, from_fp16_bits));
    REQUIRE(to_bf16_bits(value) == nearest_bits(value, from_bf16_bits));
  }
  // Halfway plus a hair: rounding to float first would lose the hair and tie to even.
  CHECK(from_bf16_bits(to_bf16_bits(1.0 + 0x1p-8 + 0x1p-40)) == 1.0F + 0x1p-7F);
  CHECK(from_bf16_bits(to_bf16_bits(1.0 + 0x1p-8)) == 1.0F);
  CHECK(from_fp16_bits(to_fp16_bits(1.0 + 0x1p-11 + 0x1p-40)) == 1.0F + 0x1p-10F);
  CHECK(std::isinf(from_fp16_bits(to_fp16_bits(65520.0))));
  CHECK(from_fp16_bits(to_fp16_bits(65519.0)) == 65504.0F);
}

TEST_CASE("a rank's hash is told by that of another one with the same words but for its own") {
  RankHash leader;
  RankHash other;
  HashBeside beside;
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    if (i % 300 == 7) {
      beside.add_own(leader, i, 3 * i);
      leader.add_own(i);
      other.add_own(3 * i);
      CHECK(leader.value() != other.value());
    }
    leader.add(i * i);
    other.add(i * i);
    leader.wait(5 * i);
    other.wait(5 * i);
    REQUIRE(beside.beside(leader).value() == other.value());
  }
  other.wait(1);
  CHECK(beside.beside(leader).value() != other.value());
}

TEST_CASE("a rank's hash depends on the order of its words") {
  RankHash one;
  RankHash other;
  one.wait(1);
  one.wait(2);
  other.wait(2);
  other.wait(1);
  CHECK(one.value() != other.value());
  // Its own words are no common ones.
  RankHash own;
  own.add_own(1);
  RankHash common;
  common.wait(1);
  CHECK(own.value() != common.value());
}

TEST_CASE("the ledger keeps the peak and what it consisted of") {
  RollingHash hash;
  MemoryLedger ledger(hash);
  ledger.allocate(MemoryCategory::params, 100);
  ledger.allocate(MemoryCategory::activations, 50);
  ledger.release(MemoryCategory::activations, 50);
  ledger.allocate(MemoryCategory::grads, 30);
  CHECK(ledger.peak() == 150);
  CHECK(ledger.at_peak()[static_cast<std::size_t>(MemoryCategory::activations)] == 50);
  CHECK(ledger.at_peak()[static_cast<std::size_t>(MemoryCategory::grads)] == 0);
  CHECK(ledger.category_peaks()[static_cast<std::size_t>(MemoryCategory::grads)] == 30);
  CHECK(ledger.total_now() == 130);
  ledger.reset_peaks();
  CHECK(ledger.peak() == 130);
  CHECK_THROWS_AS(ledger.allocate(MemoryCategory::comm, std::numeric_limits<std::int64_t>::max()),
                  LimitError);
}

TEST_CASE("random numbers depend on seed, name and index only, and spread") {
  const RandomStream a(1, "weights");
  const RandomStream b(1, "weights");
  const RandomStream c(2, "weights");
  const RandomStream d(1, "tokens");
  std::set<std::uint64_t> seen;
  double sum = 0.0;
  double squares = 0.0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    REQUIRE(a.bits(i) == b.bits(i));
    seen.insert(a.bits(i));
    seen.insert(c.bits(i));
    seen.insert(d.bits(i));
    REQUIRE(a.below(i, 7) < 7);
    sum += a.bell(i);
    squares += a.bell(i) * a.bell(i);
  }
  CHECK(seen.size() == 60000);
  // Standard errors are 0.007 and 0.01; five of them.
  CHECK(std::fabs(sum / 20000) < 0.036);
  CHECK(std::fabs(squares / 20000 - 1.0) < 0.05);
}

TEST_CASE("Philox gives the published answers") {
  // Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
  constexpr std::uint32_t kOnes = 0xFFFFFFFFU;
  CHECK(philox4x32({0, 0, 0, 0}, 0, 0) ==
        PhiloxBlock{0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U});
  CHECK(philox4x32({kOnes, kOnes, kOnes, kOnes}, kOnes, kOnes) ==
        PhiloxBlock{0x408F276DU, 0x41C83B0EU, 0xA20BC7C6U, 0x6D5451FDU});
}

TEST_CASE("ranks are written as ranges") {
  CHECK(format_ranks({}).empty());
  CHECK(format_ranks({0, 1, 2, 3, 6}) == "0-3,6");
  CHECK(format_ranks({5}) == "5");
  CHECK(format_ranks({0, 2, 4, 6}, 2) == "0,2,... (4 ranks)");
}

TEST_CASE("a diagnosis stays under 40 lines whatever its size") {
  Diagnosis diagnosis{.code = "DEADLOCK", .summary = "everyone waits", .group = "world"};
  for (int i = 0; i < 1000; ++i) {
    diagnosis.sides.push_back({.ranks = {i}, .action = "waits", .site = {}});
    diagnosis.cycle.push_back("rank waits for rank");
  }
  const std::string text = diagnosis.to_text();
  CHECK(std::count(text.begin(), text.end(), '\n') <= 40);
}

}  // namespace shardsim
