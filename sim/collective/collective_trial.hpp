#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backends/communicator.hpp"

#include "sim/collective/collective_setting.hpp"

// One rank's part of measuring, on any backend.
namespace shardsim {

/// Numbers whose reductions are known to the last bit: small integers, few enough that every sum
/// and product on the way is exact in the element type.
class TestValues {
 public:
  /// `op`: how they will be reduced; `reduces`: whether they will be at all.
  TestValues(DType dtype, ReduceOp op, bool reduces, int ranks);

  /// The input of rank `rank` at element `index`. It repeats after a prime number of elements, so
  /// that no chunk that went astray by a power of two looks right.
  [[nodiscard]] double at(int rank, std::int64_t index) const;
  /// Element i of `buffer` becomes at(rank, first + i).
  void fill(const Tensor& buffer, int rank, std::int64_t first) const;

  /// Means, in place of a rank, the reduction over all of them.
  static constexpr int kAll = -1;
  /// Elements of `buffer` that are not, in every bit, those of `source` from `first` on.
  [[nodiscard]] std::int64_t count_wrong(const Tensor& buffer, int source,
                                         std::int64_t first) const;

 private:
  static constexpr std::int64_t kPeriod = 4093;

  [[nodiscard]] double reduced(std::int64_t residue) const;
  // Elements first to first + `count` - 1 as they lie in memory; `count` is at most a period.
  [[nodiscard]] Tensor pattern(int source, std::int64_t first, std::int64_t count) const;

  DType dtype_;
  ReduceOp op_;
  int ranks_;
  std::int64_t span_ = 1;        // Values are 1 to this. 0: ones, on as many ranks as may be.
  std::int64_t most_ = 1;        // Ranks that may have a one.
  std::vector<double> reduced_;  // By residue.
};

enum class BufferPlace : std::uint8_t { out_of_place, in_place };
inline constexpr std::array kBufferPlaces = {BufferPlace::out_of_place, BufferPlace::in_place};

/// One rank's result at one size; nothing if the operation does not work so, or was not asked for.
struct TrialResult {
  struct Place {
    std::optional<double> seconds;  ///< For one operation, average over the iterations.
    std::optional<std::int64_t> wrong;
  };
  std::array<Place, kBufferPlaces.size()> places;
  std::int64_t sent_bytes = 0;  ///< By this rank in one operation; own count.

  [[nodiscard]] Place& at(BufferPlace place) { return places[static_cast<std::size_t>(place)]; }
};

class CollectiveTrial {
 public:
  /// `values`: as the setting says. Null: tensors are without data, and nothing is checked.
  /// `clock`: this rank's seconds. All outlive the trial.
  CollectiveTrial(const CollectiveSetting& setting, Communicator& world, const TestValues* values,
                  std::function<double()> clock)
      : setting_(setting), world_(world), values_(values), clock_(std::move(clock)) {}

  /// As nccl-tests: untimed operations of the largest size, then of the smallest.
  void warm_up();
  /// Times `iterations` operations, each waited for before the next (as with nccl-tests' -z 1),
  /// between barriers; then fills, runs and checks `checks` times. All ranks call it alike.
  [[nodiscard]] TrialResult run(std::int64_t size, int iterations, int checks);
  /// Sent since the beginning, all calls together.
  [[nodiscard]] std::int64_t sent_in_all() const;

 private:
  struct Buffers {
    Tensor whole;  // In place: the buffer that holds both.
    Tensor input;
    Tensor output;
  };

  [[nodiscard]] bool works(BufferPlace place) const;
  [[nodiscard]] Buffers allocate(BufferPlace place, const ElementCounts& counts) const;
  Work post(const Buffers& buffers);
  void repeat(const Buffers& buffers, int times);
  void time(const Buffers& buffers, int iterations, TrialResult::Place& found);
  [[nodiscard]] std::int64_t check(const Buffers& buffers, std::int64_t chunk);
  [[nodiscard]] std::int64_t count_wrong(const Tensor& output, std::int64_t chunk) const;

  const CollectiveSetting& setting_;
  Communicator& world_;
  const TestValues* values_;
  std::function<double()> clock_;
};

}  // namespace shardsim
