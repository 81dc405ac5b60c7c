#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// The stable hash behind trace hashes and random keys: the same on every compiler and machine.
namespace shardsim {

/// A rolling 64-bit hash: order matters. Each word costs one multiplication, since every event of
/// every rank goes through here.
class RollingHash {
 public:
  void add(std::uint64_t word) {
    // The 128-bit product folded in half mixes all bits of both factors (as in wyhash). The odd
    // constants keep a zero word or a zero state from cancelling.
    __extension__ using Wide = unsigned __int128;
    const Wide product = Wide{state_ ^ 0x9E3779B97F4A7C15U} * (word ^ 0xD6E8FEB86659FD93U);
    state_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
    state_ += 0xA0761D6478BD642FU;
  }
  void add(std::int64_t word) { add(static_cast<std::uint64_t>(word)); }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x2545F4914F6CDD1DU;
};

/// The hash of a rank's actions. Those between two waits are a stretch and have a hash of their
/// own: ranks that do the same have equal stretches. Its words must not tell these ranks apart.
///
/// The whole is a polynomial of the words, each of which is mixed first: what two ranks differ by
/// then grows by one factor with each word that both take, whatever the word is (HashBeside).
class RankHash {
 public:
  void add(std::uint64_t word) { stretch_.add(word); }
  void add(std::int64_t word) { stretch_.add(word); }
  /// The stretch so far; the same object for ever.
  [[nodiscard]] RollingHash& stretch() { return stretch_; }
  [[nodiscard]] const RollingHash& stretch() const { return stretch_; }
  /// A word that does tell them apart: the rank's place in a group, a time.
  void add_own(std::uint64_t word) { take(mixed(word, kOwn)); }
  /// Ends the stretch with a wait. `times`: of what was waited for, and of the rank.
  void wait(std::uint64_t times) {
    wait_after(stretch_.value(), times);
    stretch_ = RollingHash();
  }
  /// The same for a stretch whose hash is known.
  void wait_after(std::uint64_t stretch, std::uint64_t times) { take(mixed(stretch, times)); }
  [[nodiscard]] std::uint64_t value() const { return mixed(whole_, stretch_.value()); }

 private:
  friend class HashBeside;
  // Odd, and 5 modulo 8: its powers take longest to come back.
  static constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15U;
  static constexpr std::uint64_t kOwn = 0xBF58476D1CE4E5B9U;

  static std::uint64_t mixed(std::uint64_t one, std::uint64_t other) {
    RollingHash hash;
    hash.add(one);
    hash.add(other);
    return hash.value();
  }
  void take(std::uint64_t word) {
    whole_ = whole_ * kFactor + word;
    ++num_words_;
  }

  std::uint64_t whole_ = 0;
  std::uint64_t num_words_ = 0;
  RollingHash stretch_;
};

/// The hash of a rank that takes the words of another one, its leader, but for words of its own.
/// The leader's common words cost it nothing.
class HashBeside {
 public:
  /// The rank adds a word of its own where its leader, which is as it was before, adds `leaders`.
  void add_own(const RankHash& leader, std::uint64_t leaders, std::uint64_t own) {
    const std::uint64_t apart =
        RankHash::mixed(own, RankHash::kOwn) - RankHash::mixed(leaders, RankHash::kOwn);
    difference_ = difference_after(leader.num_words_) * RankHash::kFactor + apart;
    num_words_ = leader.num_words_ + 1;
  }
  /// The rank's hash, its leader's being that.
  [[nodiscard]] RankHash beside(const RankHash& leader) const {
    RankHash hash = leader;
    hash.whole_ += difference_after(leader.num_words_);
    return hash;
  }

 private:
  [[nodiscard]] std::uint64_t difference_after(std::uint64_t num_words) const {
    std::uint64_t result = difference_;
    std::uint64_t factor = RankHash::kFactor;
    for (std::uint64_t left = num_words - num_words_; left > 0; left /= 2) {
      if (left % 2 == 1) result *= factor;
      factor *= factor;
    }
    return result;
  }

  std::uint64_t difference_ = 0;
  std::uint64_t num_words_ = 0;  // The leader's, when the two were that far apart.
};

/// Hash of a text under a seed.
[[nodiscard]] inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) {
  RollingHash hash;
  hash.add(seed);
  for (const char c : text) hash.add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
  hash.add(static_cast<std::uint64_t>(text.size()));
  return hash.value();
}

/// Hash of a label: as stable, eight characters per multiplication, since every call has one.
[[nodiscard]] inline std::uint64_t hash_label(std::string_view text) {
  if (text.empty()) return 0;
  RollingHash hash;
  std::uint64_t word = text.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i % 8 == 0) {
      hash.add(word);
      word = 0;
    }
    word |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * (i % 8));
  }
  hash.add(word);
  return hash.value();
}

}  // namespace shardsim
