#include "strategies/gradient_sync/compressors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "strategies/gradient_sync/compressed_reducer.hpp"
#include "strategies/named_rows.hpp"

namespace shardsim {

namespace {

constexpr ParcelRoute kToAllRanks = {.to_all = true, .make_reducer = make_gathered_reducer};
constexpr ParcelRoute kToOwners = {.to_all = false, .make_reducer = make_quantized_reducer};

// Each row names all members: GCC 12 loses defaults of members in nested constants.
constexpr CompressorRow kLargestElements = {
    .name = "top_k",
    .summary =
        "the largest elements of each bucket, as values and int32 places, from each rank "
        "to each",
    .route = kToAllRanks,
    .make = make_top_k,
    .reads_ratio = true,
    .reads_block_size = false,
    .in_doubles = keep_largest,
    .parcel_bytes = bytes_of_largest,
    .unpacking = nullptr,
    .assumption =
        "Selecting reads the gradient twice, adding up writes it once; all ranks gather "
        "the parcels of all, and bytes grow with their number",
    .assumption_source = "modelling choice; a selection on a real GPU takes more passes"};

constexpr CompressorRow kInt8Blocks = {
    .name = "int8",
    .summary =
        "all, with one fp32 scale per block, to the ranks that add them up, and their sums "
        "likewise",
    .route = kToOwners,
    .make = make_int8_blocks,
    .reads_ratio = false,
    .reads_block_size = true,
    .in_doubles = round_to_levels,
    .parcel_bytes = nullptr,
    .unpacking = "dequantize_int8",
    .assumption =
        "Quantizing reads twice and writes once; gradients go to the owners of their "
        "parts beside backward, and the quantized sums are gathered when it has ended",
    .assumption_source = "as 1-bit Adam's compressed all_reduce, whose parts it pads"};

constexpr std::array<const CompressorRow*, 2> kCompressors = {&kLargestElements, &kInt8Blocks};

// Each route asks one question of its rows (compressors.hpp).
constexpr bool answers(const CompressorRow& row) {
  return row.route.to_all ? row.parcel_bytes != nullptr : row.unpacking != nullptr;
}
static_assert(std::all_of(kCompressors.begin(), kCompressors.end(),
                          [](const CompressorRow* row) { return answers(*row); }));

}  // namespace

std::span<const CompressorRow* const> compressor_rows() { return kCompressors; }

const CompressorRow* find_compressor(std::string_view name) {
  for (const CompressorRow* const row : kCompressors) {
    if (row->name == name) return row;
  }
  return nullptr;
}

std::string names_of_compressors(const std::function<bool(const CompressorRow&)>& selects) {
  std::vector<CompressorRow> rows;
  for (const CompressorRow* const row : kCompressors) rows.push_back(*row);
  return names_that(rows, selects, " or ", "");
}

const CompressorRow& largest_elements() { return kLargestElements; }
const CompressorRow& int8_blocks() { return kInt8Blocks; }

std::int64_t num_kept(const GradientCompression& compression, std::int64_t numel) {
  // The fewest whose share is not below the ratio. The product alone may round above a whole
  // number, as 0.07 x 100 does; the quotient is as exact as the decimal was read.
  const auto size = static_cast<double>(numel);
  auto kept = static_cast<std::int64_t>(compression.ratio * size);
  while (static_cast<double>(kept) / size < compression.ratio) ++kept;
  while (kept > 0 && static_cast<double>(kept - 1) / size >= compression.ratio) --kept;
  return std::clamp<std::int64_t>(kept, std::min<std::int64_t>(numel, 1), numel);
}

std::int64_t num_blocks(const GradientCompression& compression, std::int64_t numel) {
  return (numel + compression.block_size - 1) / compression.block_size;
}

}  // namespace shardsim
