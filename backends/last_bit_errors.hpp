#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "backends/communicator.hpp"

// What the last bits of numbers that ranks exchange do to results. For the harness alone.
namespace shardsim {

/// What is moved: terms of a sum (or mean), or numbers that arrive as they are.
enum class Carried : std::uint8_t { terms, copies };

/// While it lives, it sees every tensor that fibers of this thread exchange, and decides what
/// arrives instead. One that is made later hides it as long as that one lives.
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

/// Which tensors that ranks exchange are flags, counts or small indices: in fp64 they are nothing
/// but whole numbers up to 16. In a narrow format this is not to be seen: 0.998 is 1 in bf16.
class CountsSent {
 public:
  void note(Carried moved, int sender, const Tensor& tensor);
  /// Whether the tensor that `sender` gave as its call number `call` of this sort was one; of calls
  /// that were not seen, whether `tensor` is one.
  [[nodiscard]] bool is_count(Carried moved, int sender, std::size_t call,
                              const Tensor& tensor) const;

 private:
  std::map<std::pair<Carried, int>, std::vector<bool>> seen_;
};

/// While it lives, exchanged tensors are noted in `counts`, and arrive as they are.
class CountsWatch : public ExchangeObserver {
 public:
  explicit CountsWatch(CountsSent& counts) : counts_(counts) {}
  [[nodiscard]] Tensor arriving(const Tensor& tensor, Carried moved, int sender) override;

 private:
  CountsSent& counts_;
};

/// While it lives, numbers of fp32, bf16 or fp16 arrive as a neighbour of what they are, above or
/// below, drawn: a rank that computes a number and sends it has rounded it once, by at most half of
/// that. Equal numbers of one rank (but for their sign) have equal errors. Terms of two ranks do
/// not: 1000.4 and 999.9 are the same in bf16, and what is left of them is the error of either.
/// Counts have none, as programs act on them.
class LastBitErrors : public ExchangeObserver {
 public:
  /// All terms of sums have errors. `counts`: of the same program, and must outlive this.
  LastBitErrors(std::uint64_t seed, const CountsSent& counts);
  /// All copies that rank `sender` of the world sends have errors.
  LastBitErrors(std::uint64_t seed, const CountsSent& counts, int sender);

  [[nodiscard]] Tensor arriving(const Tensor& tensor, Carried moved, int sender) override;

 private:
  [[nodiscard]] double neighbour(double value, DType dtype, int sender) const;

  std::uint64_t seed_;
  const CountsSent& counts_;
  Carried moved_;
  int sender_ = -1;
  std::map<std::pair<Carried, int>, std::size_t> calls_;
};

/// What arrives of a tensor: itself, unless errors are drawn.
[[nodiscard]] inline Tensor as_moved(const Tensor& tensor, Carried moved, int sender) {
  ExchangeObserver* const observer = ExchangeObserver::active();
  return observer == nullptr ? tensor : observer->arriving(tensor, moved, sender);
}

}  // namespace shardsim
