#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernel/dtype.hpp"

#include "sim/hardware/compute_op.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"

// Measured times of kernels: rows of a table, or calls in the trace of a run, as operations that a
// device can price.
namespace shardsim {

enum class KernelOperation : std::uint8_t {
  matmul,
  attention_forward,
  attention_backward,
  permutation,
  cross_entropy,
  amax,
  quantize,
};
inline constexpr std::size_t kKernelOperations = 7;
/// "attention_forward"
[[nodiscard]] std::string_view name_of(KernelOperation operation);

/// The operands of products: bits of an element, and whether blocks of elements have scales.
struct KernelPrecision {
  DType dtype = DType::bf16;
  bool has_block_scales = false;
  bool operator==(const KernelPrecision&) const = default;
};
/// "bf16", "fp8_block". REQUIRES: one that parse_precision() returns.
[[nodiscard]] std::string_view name_of(const KernelPrecision& precision);
/// All names, in the order in which they are listed.
[[nodiscard]] std::vector<std::string> kernel_precision_names();
[[nodiscard]] std::vector<std::string> kernel_operation_names();
/// Null: there is none of this name. Other programs' words count: "BFloat16".
[[nodiscard]] const KernelPrecision* find_precision(std::string_view name);
[[nodiscard]] const KernelOperation* find_kernel_operation(std::string_view name);

/// One measured time, without the launch.
struct KernelMeasurement {
  KernelOperation operation{};
  KernelPrecision precision;
  ComputeOp work{};
  double seconds = 0.0;
  std::size_t source = 0;  ///< Number of its file among those given.
  /// The kernel ran alone, for milliseconds; not in a run, whose clocks are lower.
  bool is_burst = false;
  /// The library of an attention; none: that of ideal kernels.
  std::optional<AttentionLibrary> library = std::nullopt;
};

struct MeasuredProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  std::int64_t result_bytes = 2;  ///< Bytes of an element,
  bool accumulates = false;       ///< which is read, too.
};
[[nodiscard]] ComputeOp work_of(const MeasuredProduct& product, const KernelPrecision& precision);

struct MeasuredAttention {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;  ///< 0: as many.
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t head_dim = 0;
  bool is_causal = false;  ///< REQUIRES then: as many keys as queries.
};
/// REQUIRES: attention_forward or attention_backward.
[[nodiscard]] ComputeOp work_of(const MeasuredAttention& attention, KernelOperation operation,
                                DType dtype);

/// REQUIRES: one of the other operations.
[[nodiscard]] ComputeOp work_of_bytes(std::int64_t bytes, KernelOperation operation, DType dtype);

// --- Tables ------------------------------------------------------------------------------------

/// "batch=groups": where the reader looks for "batch", or its value in every row.
struct ColumnChoice {
  std::string name;
  std::string value;
};

/// How tables are read whose columns have other names.
struct KernelTableOptions {
  std::vector<ColumnChoice> columns;  ///< Names of ours, and the table's columns.
  std::vector<ColumnChoice> values;   ///< Names of ours, and one value for all rows.
  std::vector<ColumnChoice> where;    ///< The table's columns, and the value of rows that count.
};

struct KernelTable {
  std::string file;
  std::vector<KernelMeasurement> rows;
  std::int64_t num_left_out = 0;     ///< By `where`.
  std::vector<std::string> columns;  ///< All of them,
  std::vector<std::string> unread;   ///< and those that tell nothing here.
};

/// The names that ColumnChoice::name may be, but for `where`.
[[nodiscard]] std::vector<std::string> kernel_column_names();

/// A table with a header, in any order of columns. Throws ScenarioError: E0921 to E0923 for no
/// table, E0957 (a column is missing, or two tell the same), E0958 (words that are not known, all
/// of them), E0959 (a cell that is no such number), E0960 (no row is left).
[[nodiscard]] KernelTable parse_kernel_table(const std::string& text, const std::string& file,
                                             const KernelTableOptions& options);

// --- Traces ------------------------------------------------------------------------------------

/// Kernels of one name that are not measurements of an operation.
struct UnmatchedKernels {
  std::string name;
  std::string why;
  std::int64_t calls = 0;
  double seconds = 0.0;
};

/// The kernels of a trace, as measurements and as what is left.
struct KernelTrace {
  std::string file;
  std::vector<KernelMeasurement> rows;
  std::vector<std::string> notes;
  std::int64_t kernels = 0;
  double seconds = 0.0;                             ///< The time of all kernels,
  double communication_seconds = 0.0;               ///< of NCCL's, which are none of ours,
  std::array<double, kKernelOperations> matched{};  ///< and of each operation.
  std::vector<UnmatchedKernels> unmatched;          ///< The longest first.

  [[nodiscard]] double matched_seconds() const;
  /// Matched share of the time of kernels that compute; 0 without any.
  [[nodiscard]] double coverage() const;
};

[[nodiscard]] bool looks_like_trace(std::string_view text);

/// The trace of torch.profiler with record_shapes=True, of one rank. Throws ScenarioError: E0961
/// (no trace, or no kernels in it).
[[nodiscard]] KernelTrace parse_kernel_trace(const std::string& text, const std::string& file);

}  // namespace shardsim
