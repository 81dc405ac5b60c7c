#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

// Values that know whether they were read. A number of the scenario keeps its mark on the way to
// the code that uses it for a decision. A marked value that was never read had no effect.
namespace shardsim {

/// Names a value in a ReadLog; 0: nobody tracks the value.
using ReadMark = std::uint16_t;

/// The fate of marked values while a Scope of this log was open in this thread.
class ReadLog {
 public:
  /// Notes a value that decided something.
  void note_read(ReadMark mark) { at(mark).read = true; }
  /// Notes a limit that lost against a stricter one, `winner`.
  void note_lost(ReadMark mark, ReadMark winner) { at(mark).lost_to = winner; }

  [[nodiscard]] bool was_read(ReadMark mark) const {
    return mark < fates_.size() && fates_[mark].read;
  }
  /// The mark of the stricter limit it lost against last (0: unmarked); none if it never lost.
  [[nodiscard]] std::optional<ReadMark> lost_to(ReadMark mark) const {
    return mark < fates_.size() ? fates_[mark].lost_to : std::nullopt;
  }

  /// The log that notes reads of this thread; null: none.
  [[nodiscard]] static ReadLog* current() { return current_; }

  /// Makes `log` current until the scope ends, then restores the one before. Null: nothing is
  /// noted, for values that are only checked or shown.
  class Scope {
   public:
    explicit Scope(ReadLog* log) : before_(current_) { current_ = log; }
    ~Scope() { current_ = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    Scope(Scope&&) = delete;
    Scope& operator=(Scope&&) = delete;

   private:
    ReadLog* before_;
  };

 private:
  struct Fate {
    bool read = false;
    std::optional<ReadMark> lost_to;
  };

  Fate& at(ReadMark mark) {
    if (mark >= fates_.size()) fates_.resize(std::size_t{mark} + 1);
    return fates_[mark];
  }

  static inline constinit thread_local ReadLog* current_ = nullptr;
  std::vector<Fate> fates_;  // By mark.
};

/// A number or enumerator with its mark. Converting it is a read; copies keep the mark and read
/// nothing. If only a product of it is needed, use times() or map(), which keep the mark, too.
template <typename T>
class Tracked {
 public:
  using Value = T;

  constexpr Tracked() = default;
  // Both conversions are intended: code reads and writes it like a T.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Tracked(T value) : value_(value) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator T() const {
    if (ReadLog* const log = ReadLog::current()) {
      if (mark_ != 0) log->note_read(mark_);
      if (other_mark_ != 0) log->note_read(other_mark_);
    }
    return value_;
  }

  /// The value, for showing or checking, which is no read.
  [[nodiscard]] constexpr T peek() const { return value_; }
  [[nodiscard]] ReadMark mark() const { return mark_; }
  void set_mark(ReadMark mark) { mark_ = mark; }
  /// That of a second value it follows from: who reads this one reads both.
  void set_other_mark(ReadMark mark) { other_mark_ = mark; }

  /// A value that follows from this one alone, with the same mark.
  template <typename Function>
  [[nodiscard]] auto map(Function function) const {
    Tracked<std::decay_t<decltype(function(value_))>> result(function(value_));
    result.set_mark(mark_);
    result.set_other_mark(other_mark_);
    return result;
  }
  [[nodiscard]] Tracked times(T factor) const {
    return map([factor](T value) { return value * factor; });
  }
  Tracked& operator*=(T factor) { return value_ *= factor, *this; }
  Tracked& operator+=(T term) { return value_ += term, *this; }

 private:
  T value_{};
  ReadMark mark_ = 0;
  ReadMark other_mark_ = 0;
};

namespace tracked_internal {

template <typename T>
const Tracked<T>& winner_of(const Tracked<T>& winner, const Tracked<T>& loser) {
  if (loser.mark() != 0 && ReadLog::current() != nullptr) {
    ReadLog::current()->note_lost(loser.mark(), winner.mark());
  }
  return winner;
}

}  // namespace tracked_internal

/// The smaller of two limits, not read yet; the other one is noted as lost to it. In a tie the
/// first one wins.
template <typename T>
[[nodiscard]] Tracked<T> smaller_of(const Tracked<T>& a, const Tracked<T>& b) {
  return b.peek() < a.peek() ? tracked_internal::winner_of(b, a)
                             : tracked_internal::winner_of(a, b);
}

/// The same for the larger one.
template <typename T>
[[nodiscard]] Tracked<T> larger_of(const Tracked<T>& a, const Tracked<T>& b) {
  return a.peek() < b.peek() ? tracked_internal::winner_of(b, a)
                             : tracked_internal::winner_of(a, b);
}

}  // namespace shardsim
