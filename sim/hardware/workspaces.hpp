#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

// Device memory that libraries of matrix products keep for themselves: from their first product on,
// in blocks of the caching allocator (docs/decisions/0075-memory-of-libraries.md).
namespace shardsim {

struct Architecture;
struct Software;

/// Handles of PyTorch's library of products: the thread that runs forward has one, and so has the
/// thread of autograd.
inline constexpr int kBlasHandles = 2;

/// The workspaces of a process on one device.
struct Workspaces {
  int handles = 0;
  std::int64_t handle_bytes = 0;  ///< Each.
  std::int64_t engine_bytes = 0;  ///< Transformer Engine's own; 0: none.

  /// All of them.
  [[nodiscard]] std::int64_t bytes() const { return handles * handle_bytes + engine_bytes; }
  /// Their sizes.
  [[nodiscard]] std::vector<std::int64_t> blocks() const;
};

/// `software`: null: PyTorch alone. `config`: as parse_workspace_config() reads it, else nothing.
[[nodiscard]] Workspaces workspaces_of(const Software* software, const Architecture& architecture,
                                       std::optional<std::int64_t> config);

/// The bytes that CUBLAS_WORKSPACE_CONFIG gives to a handle: the sum over ":KiB:count" pairs, as
/// PyTorch reads them. ":4096:8" is 32 MiB. Nothing if it is not written so, or more than 2^56.
[[nodiscard]] std::optional<std::int64_t> parse_workspace_config(std::string_view config);

}  // namespace shardsim
