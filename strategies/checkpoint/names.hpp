#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "strategies/checkpoint/checkpoint_error.hpp"

// The names of folders and files of a checkpoint. A name is a function of its object, so a reader
// accepts the one name there is and no path can be smuggled in.
namespace shardsim {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kManifestTemporary = "manifest.json.tmp";

/// "DIRECTORY/step-00000012".
[[nodiscard]] std::string step_folder(const CheckpointPlace& place);
/// "step-00000012": at least eight digits, so that names sort as numbers for a long time.
[[nodiscard]] std::string step_name(std::int64_t step);
[[nodiscard]] std::optional<std::int64_t> parse_step_name(std::string_view name);

/// "rank-0003-8899aabbccddeeff.safetensors". With the checksum in its name, a file never overwrites
/// a different one, so a step can be saved again while its old state stays loadable.
[[nodiscard]] std::string rank_file_name(int rank, std::uint64_t checksum);
/// "rank-0003.tmp".
[[nodiscard]] std::string rank_temporary(int rank);
/// Whether a file of this name is one of ours and no manifest, so that it may be cleaned up.
[[nodiscard]] bool is_rank_file_name(std::string_view name);

}  // namespace shardsim
