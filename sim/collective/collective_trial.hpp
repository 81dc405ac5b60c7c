#pragma once

#include <array>
#include <functional>
#include <optional>

#include "sim/collective/collective_setting.hpp"
#include "sim/collective/test_values.hpp"

// One rank's part of measuring, on any backend.
namespace shardsim {

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
