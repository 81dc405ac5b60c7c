#pragma once

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

// What PyTorch's process group for NCCL refuses before it sends anything
// (torch/csrc/distributed/c10d, ProcessGroupNCCL.cpp and Utils.hpp). They throw, as it does.
namespace shardsim_torch {

/// Elements in the order of memory, without gaps.
void check_dense(const char* kind, const std::vector<at::Tensor>& tensors);
/// `whole` holds a `part` of each of so many members.
void check_parts(const char* kind, const at::Tensor& whole, const at::Tensor& part, int members);
/// Elements of each member's rows of an all_to_all. No `rows`: equal shares.
[[nodiscard]] std::vector<std::int64_t> elements_of_rows(const at::Tensor& tensor,
                                                         const std::vector<std::int64_t>& rows,
                                                         int members);

}  // namespace shardsim_torch
