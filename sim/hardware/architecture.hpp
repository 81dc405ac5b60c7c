#pragma once

#include <span>
#include <string_view>

#include "sim/hardware/sourced_number.hpp"

// Generations of accelerators, as far as software treats each in its own way.
namespace shardsim {

struct Architecture {
  const char* name;     ///< As scenarios write it.
  const char* devices;  ///< Words that its devices have in their names.
  /// Device memory that PyTorch gives to one handle of the library of matrix products (cuBLAS,
  /// hipBLASLt), where CUBLAS_WORKSPACE_CONFIG does not say it.
  SourcedBytes handle_workspace;
  /// That Transformer Engine gives to its own products.
  SourcedBytes engine_workspace;
};

/// All of them. The last is "other", of which nothing is known.
[[nodiscard]] std::span<const Architecture> all_architectures();
/// Null if there is none of that name.
[[nodiscard]] const Architecture* find_architecture(std::string_view name);
/// The architecture whose device this name tells, else "other".
[[nodiscard]] const Architecture& architecture_of_device(std::string_view device);

}  // namespace shardsim
