#pragma once

#include <cstdint>

#include <ATen/ATen.h>

// Tensors of the virtual device, made and looked at without operators of PyTorch.
namespace shardsim_torch {

[[nodiscard]] at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides,
                                    at::ScalarType type);
/// Another view of the same storage. `offset`: in elements of `dtype`.
[[nodiscard]] at::Tensor alias_of(const at::Tensor& tensor, at::IntArrayRef sizes,
                                  at::IntArrayRef strides, std::int64_t offset,
                                  caffe2::TypeMeta dtype);
/// Makes it contiguous, and its storage larger if it has to be.
void resize_tensor(const at::Tensor& tensor, at::IntArrayRef sizes);

}  // namespace shardsim_torch
