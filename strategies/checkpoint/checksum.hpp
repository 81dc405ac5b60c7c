#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

// The checksum of checkpoints: XXH64 with seed 0, to detect disks that lie and files cut short. It
// is no signature: a writer of the files can make them match. Source: Collet, "xxHash fast digest
// algorithm", specification 0.1.1, section "XXH64 algorithm description".
namespace shardsim {

class Checksum {
 public:
  Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  ~Checksum();

  void add(std::span<const std::byte> bytes);
  /// Checksum of all bytes so far.
  [[nodiscard]] std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::uint64_t checksum_of(std::string_view bytes);

/// Sixteen lower-case hexadecimal digits, the highest first.
[[nodiscard]] std::string hex_of(std::uint64_t value);
[[nodiscard]] std::optional<std::uint64_t> parse_hex(std::string_view text);

}  // namespace shardsim
