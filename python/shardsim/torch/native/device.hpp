#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/Stream.h>

#include "log.hpp"

// A CUDA device without a GPU, on a CPU build of PyTorch: its tensors have shapes, strides and
// addresses, and those of up to kSmallBytes have memory. Operators are written to the log. For a
// rank that trains with data (remote.hpp) all tensors have memory, and the host computes.
namespace shardsim_torch {

// --- Memory ------------------------------------------------------------------------------------

/// Storages up to here have memory: values that programs send each other through the device (sizes
/// of objects, counts of tokens) stay what they are.
inline constexpr std::size_t kSmallBytes = std::size_t{1} << 16U;

/// Device memory of a size, from an address space without memory behind it.
[[nodiscard]] c10::DataPtr allocate(std::size_t bytes);
[[nodiscard]] at::Allocator* device_allocator();
struct MemoryUse {
  std::size_t now = 0;
  std::size_t peak = 0;
};
[[nodiscard]] MemoryUse memory_use();
void reset_peak();
/// The allocation's number in the log; -1: there is none at the address.
[[nodiscard]] std::int64_t number_of_allocation(const void* address);

// --- Values ------------------------------------------------------------------------------------

/// Whether a tensor has memory.
[[nodiscard]] bool is_small(const at::Tensor& tensor);
/// Whether its values are known: they came from the host, or were computed of such values.
[[nodiscard]] bool is_known(const at::Tensor& tensor);
/// Says so, if the tensor is all of its memory, or the rest was known before.
void set_known(const at::Tensor& tensor);
void set_unknown(const at::Tensor& tensor);
/// The same tensor, for operators of the host. REQUIRES: is_small().
[[nodiscard]] at::Tensor on_host(const at::Tensor& tensor);

// --- Streams -----------------------------------------------------------------------------------

/// The calling thread's.
[[nodiscard]] StreamNumber current_stream();
/// Returns the one before.
StreamNumber set_current_stream(StreamNumber stream);
[[nodiscard]] StreamNumber new_stream();
[[nodiscard]] std::int64_t new_event();
/// The host waits for all streams.
void synchronize_device();
[[nodiscard]] c10::Stream stream_of(StreamNumber number);

// --- Places ------------------------------------------------------------------------------------

/// In the order in which the record's writer knows them. `none` is neither forward nor backward:
/// gradients are clipped, averages of parameters kept.
enum class Phase : std::uint8_t { none, forward, recomputation, backward, optimizer };
inline constexpr std::int64_t kPhases = 5;

/// A module and a phase as one number. Modules are counted from 1; 0 is none.
[[nodiscard]] constexpr std::int64_t place_of(std::int64_t module, Phase phase) {
  return module * kPhases + static_cast<std::int64_t>(phase);
}

/// The calling thread is in the module, or in the step of an optimizer, until it leaves.
void enter_module(std::int64_t module);
void enter_optimizer();
void leave();
/// That of the operator that runs.
[[nodiscard]] std::int64_t current_place();

// --- Sites ---------------------------------------------------------------------------------------

/// File and line of the innermost Python code outside these folders; in autograd's threads, that of
/// the script which waits for them, and "(backward)".
[[nodiscard]] std::string python_site();
void set_library_folders(std::vector<std::string> folders);

}  // namespace shardsim_torch
