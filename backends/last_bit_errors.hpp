#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "backends/communicator.hpp"

// Changes the last bits of the numbers that ranks exchange. For the harness alone.
namespace shardsim {

/// Which numbers change: terms of a sum (or mean), or copies that nobody adds.
enum class Carried : std::uint8_t { terms, copies };

/// While it lives, it sees every tensor that this thread's fibers exchange, and decides what
/// arrives instead. A later observer hides an earlier one as long as both live.
class ExchangeObserver {
 public:
  ExchangeObserver();
  virtual ~ExchangeObserver();
  ExchangeObserver(const ExchangeObserver&) = delete;
  ExchangeObserver& operator=(const ExchangeObserver&) = delete;

  /// `sender`: its rank in the world.
  [[nodiscard]] virtual Tensor arriving(const Tensor& tensor, Carried moved, int sender) = 0;
  /// The observer of this thread; null: tensors arrive as they are.
  [[nodiscard]] static ExchangeObserver* active();

 private:
  ExchangeObserver* before_;
};

/// Tells flags, counts and small indices from other tensors: in fp64 they hold only whole numbers
/// up to 16. A narrow format cannot tell: it rounds 0.998 to 1.
class CountsSent {
 public:
  void note(Carried moved, int sender, const Tensor& tensor);
  /// Whether `sender` gave a count in its call number `call` of this sort. For a call that was not
  /// noted, `tensor` itself decides.
  [[nodiscard]] bool is_count(Carried moved, int sender, std::size_t call,
                              const Tensor& tensor) const;

 private:
  std::map<std::pair<Carried, int>, std::vector<bool>> seen_;
};

/// Notes exchanged tensors in `counts`; they arrive as they are.
class CountsWatch : public ExchangeObserver {
 public:
  explicit CountsWatch(CountsSent& counts) : counts_(counts) {}
  [[nodiscard]] Tensor arriving(const Tensor& tensor, Carried moved, int sender) override;

 private:
  CountsSent& counts_;
};

/// While it lives, fp32, bf16 and fp16 numbers arrive changed. Each becomes a random neighbour in
/// its format, above or below: its sender has rounded it once, by at most half of that distance.
/// Equal numbers of one rank (but for their sign) get equal errors. Equal terms of two ranks do
/// not: 1000.4 and 999.9 may be the same in bf16. Counts get none, since programs act on them.
class LastBitErrors : public ExchangeObserver {
 public:
  /// Changes all terms of sums; or, with `sender`, all copies that this rank of the world sends.
  /// `counts` comes from the same program and must outlive this.
  LastBitErrors(std::uint64_t seed, const CountsSent& counts,
                std::optional<int> sender = std::nullopt)
      : seed_(seed), counts_(counts), sender_(sender) {}

  [[nodiscard]] Tensor arriving(const Tensor& tensor, Carried moved, int sender) override;

 private:
  [[nodiscard]] double neighbour(double value, DType dtype, int sender) const;

  std::uint64_t seed_;
  const CountsSent& counts_;
  std::optional<int> sender_;
  std::map<std::pair<Carried, int>, std::size_t> calls_;
};

/// The tensor that arrives: `tensor` itself, unless an observer changes it.
[[nodiscard]] inline Tensor as_moved(const Tensor& tensor, Carried moved, int sender) {
  ExchangeObserver* const observer = ExchangeObserver::active();
  return observer == nullptr ? tensor : observer->arriving(tensor, moved, sender);
}

}  // namespace shardsim
