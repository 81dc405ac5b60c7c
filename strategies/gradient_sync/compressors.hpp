#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/gradient_sync/data_parallel.hpp"

// Ways to send gradients in fewer bytes. A new compressor is one file with the functions of its
// row, which compressed_reducer.hpp declares, and that row in compressors.cpp. All other code asks
// the row and never compares names. A question that no row answers yet is a new member here.
namespace shardsim {

class Compressor;
class GradientReducer;
class Mesh;
class Runtime;
struct SyncPlan;

/// How parcels travel.
struct ParcelRoute {
  /// Each rank gets the parcels of all. Else those that own a part of the bucket get its parcels,
  /// and compress the sum again, which is a second error.
  bool to_all;
  std::unique_ptr<GradientReducer> (*make_reducer)(const SyncPlan& plan, Runtime& runtime,
                                                   Mesh& mesh);
};

/// A compressed bucket: the values that receivers get, and the rest, which is the error.
struct CompressedValues {
  std::vector<double> received;
  std::vector<double> left;
};

struct CompressorRow {
  std::string_view name;
  std::string_view summary;  ///< For help: what is sent, and to whom.
  ParcelRoute route;
  std::unique_ptr<Compressor> (*make)(const GradientCompression& options);
  // The settings that it reads beside error_feedback.
  bool reads_ratio;
  bool reads_block_size;
  /// The same compression for the oracle's reference. It is written twice on purpose: it shares no
  /// code with the Compressor, so that a mistake in one of them is found.
  CompressedValues (*in_doubles)(const std::vector<double>& values,
                                 const GradientCompression& options);
  /// Bytes of a parcel for so many elements of so many bytes each, without rounding. Null: parcels
  /// go to owners, and nobody asks.
  double (*parcel_bytes)(const GradientCompression& options, double numel, double element_bytes);
  /// The operation that makes gradients of compressed sums, in traces. Null: there are no such
  /// sums, as parcels go to all.
  const char* unpacking;
  // The assumption behind the times of a plan, and its source.
  std::string_view assumption;
  std::string_view assumption_source;
};

/// All rows, in the order in which they are listed to users.
[[nodiscard]] std::span<const CompressorRow* const> compressor_rows();

/// The row of that name; null: there is none.
[[nodiscard]] const CompressorRow* find_compressor(std::string_view name);

/// The names of the rows that `selects`, as "a, b or c".
[[nodiscard]] std::string names_of_compressors(
    const std::function<bool(const CompressorRow&)>& selects);

// The two for which the optimizers of the specification have flags.
[[nodiscard]] const CompressorRow& largest_elements();
[[nodiscard]] const CompressorRow& int8_blocks();

}  // namespace shardsim
