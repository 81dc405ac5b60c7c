#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "backends/communicator.hpp"

#include "sim/collective/collective_setting.hpp"
#include "sim/real/rank_report.hpp"
#include "sim/run/run.hpp"

// Measuring of collectives: one rank's part on any backend, the joint rows of all ranks, simulated
// or on processes, and their table.
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

  // Whether Communicator offers it: some operations work in place only, some never do.
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

/// One size: the joint result of all ranks.
struct TestedSize {
  std::int64_t size = 0;   ///< Bytes of the larger buffer.
  std::int64_t count = 0;  ///< ElementCounts::argument.
  TrialResult found;       ///< Times: average over ranks. Wrong elements and bytes: their sum.
  /// The simulation's values, if the row is measured.
  std::optional<double> simulated_seconds;
  std::optional<std::int64_t> simulated_sent_bytes;
};

/// All there is to print.
struct CollectiveRun {
  std::vector<TestedSize> rows;
  std::int64_t sent_bytes = 0;     ///< In all, by own count; warm-up and checks included.
  std::optional<SentTotals> wire;  ///< The same, as the library below counts.
  bool wire_is_exact = false;      ///< Then both must be equal.
  std::string library;             ///< Name of the real backend's library; else empty.
  std::vector<std::string> notes;
  bool times_mean_nothing = false;  ///< Ranks share GPUs or cores.
};

/// The row of ranks that each found something at `size`.
[[nodiscard]] TestedSize row_of(const CollectiveSetting& setting, std::int64_t size,
                                const std::vector<TrialResult>& by_rank);

/// Runs in virtual time. If results are checked, data are moved once besides.
[[nodiscard]] CollectiveRun simulate_collectives(const CollectiveSetting& setting,
                                                 const RunHooks& hooks);

/// Adds the simulation's values to measured rows.
void add_simulation(const CollectiveSetting& setting, CollectiveRun& run);

/// Runs on one process per rank; times by the wall clock. Nothing: another process reports, or the
/// run has failed (reported on `err`); the caller returns `exit_code`.
[[nodiscard]] std::optional<CollectiveRun> measure_collectives(const CollectiveSetting& setting,
                                                               const ProcessOptions& options,
                                                               const RunHooks& hooks,
                                                               int& exit_code, std::ostream& err);

struct Bandwidths {
  double algorithm = 0.0;  ///< GB/s, as nccl-tests: size / time.
  double bus = 0.0;
};
[[nodiscard]] Bandwidths bandwidths_of(const CollectiveSetting& setting, const TestedSize& row,
                                       double seconds);

/// Average busbw over all timed operations, as in the footer of nccl-tests.
[[nodiscard]] double average_bus_bandwidth(const CollectiveSetting& setting,
                                           const CollectiveRun& run);
/// All wrong elements of all rows.
[[nodiscard]] std::int64_t wrong_elements(const CollectiveRun& run);
/// Whether own count and the library's agree where they must.
[[nodiscard]] bool wire_agrees(const CollectiveRun& run);

/// The table of nccl-tests, its columns first and ours after them; "N/A" if the operation does not
/// work so. `backend`: "fiber", "mpi", "nccl".
[[nodiscard]] std::string collective_table(const CollectiveSetting& setting,
                                           const std::string& backend, const CollectiveRun& run);

/// The same as one JSON object, with a newline.
[[nodiscard]] std::string collective_json(const CollectiveSetting& setting,
                                          const std::string& backend, const CollectiveRun& run);

}  // namespace shardsim
