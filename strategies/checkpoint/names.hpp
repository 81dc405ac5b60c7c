#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "strategies/checkpoint/checkpoint_error.hpp"

struct XXH64_state_s;  // <xxhash.h>

// The names of folders and files of a checkpoint, and the checksum that a file is named after. A
// name is a function of its object, so a reader accepts the one name there is and no path can be
// smuggled in.
//
// The checksum is XXH64 with seed 0, to detect disks that lie and files cut short. It is no
// signature: a writer of the files can make them match. Source: Collet, "xxHash fast digest
// algorithm", specification 0.1.1, section "XXH64 algorithm description".
namespace shardsim {

class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  /// Checksum of all bytes so far.
  [[nodiscard]] std::uint64_t value() const;

 private:
  std::unique_ptr<XXH64_state_s, void (*)(XXH64_state_s*)> state_;
};

[[nodiscard]] std::uint64_t checksum_of(std::string_view bytes);

/// Sixteen lower-case hexadecimal digits, the highest first.
[[nodiscard]] std::string hex_of(std::uint64_t value);
[[nodiscard]] std::optional<std::uint64_t> parse_hex(std::string_view text);

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
