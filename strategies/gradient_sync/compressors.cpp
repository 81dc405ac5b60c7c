#include "strategies/gradient_sync/compressors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "strategies/gradient_sync/compressed_reducer.hpp"

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
  std::vector<std::string_view> names;
  for (const CompressorRow* const row : kCompressors) {
    if (selects(*row)) names.push_back(row->name);
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

const CompressorRow& largest_elements() { return kLargestElements; }
const CompressorRow& int8_blocks() { return kInt8Blocks; }

}  // namespace shardsim
