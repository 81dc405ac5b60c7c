#include "tensors.hpp"

#include <cstring>
#include <optional>
#include <utility>

#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/to_native.h>
#include <torch/library.h>

#include "device.hpp"
#include "remote.hpp"

namespace shardsim_torch {

at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  return at::detail::empty_strided_generic(sizes, strides, device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA), type);
}

at::Tensor alias_of(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                    std::int64_t offset, caffe2::TypeMeta dtype) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(tensor.storage()), tensor.key_set(), dtype);
  made.unsafeGetTensorImpl()->set_storage_offset(offset);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

void resize_tensor(const at::Tensor& tensor, at::IntArrayRef sizes) {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= size;
  if (elements > 0) elements += tensor.storage_offset();
  const std::size_t bytes = static_cast<std::size_t>(elements) * tensor.element_size();
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() < bytes) {
    c10::DataPtr larger = allocate(bytes);
    if (with_data()) std::memcpy(larger.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr(std::move(larger));
    storage->set_nbytes(bytes);
  }
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
}

namespace {

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return new_tensor(sizes, strides, c10::dtype_or_default(dtype));
}

at::Tensor strided_view(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                        std::optional<std::int64_t> offset) {
  return alias_of(tensor, sizes, strides, offset.value_or(tensor.storage_offset()), tensor.dtype());
}

at::Tensor reshape_alias(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return strided_view(tensor, sizes, strides, tensor.storage_offset());
}

at::Tensor view(const at::Tensor& tensor, at::IntArrayRef asked) {
  const auto sizes = at::infer_size_dv(asked, tensor.numel());
  const auto strides = at::detail::computeStride(tensor.sizes(), tensor.strides(), sizes);
  TORCH_CHECK(strides,
              "view size is not compatible with input tensor's size and stride (at least one "
              "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
  return strided_view(tensor, sizes, *strides, tensor.storage_offset());
}

const at::Tensor& resize_to(const at::Tensor& tensor, at::IntArrayRef sizes,
                            std::optional<at::MemoryFormat>) {
  resize_tensor(tensor, sizes);
  return tensor;
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage, std::int64_t offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(sizes, strides);
  return tensor;
}

// --- A process has one device --------------------------------------------------------------------

// Whatever number a script gives it: a tensor that is there stays where it is.
std::optional<at::Device> own(std::optional<at::Device> device) {
  return device && device->is_cuda() ? at::Device(at::kCUDA, 0) : device;
}

at::Tensor to_options(const at::Tensor& tensor, std::optional<at::ScalarType> dtype,
                      std::optional<at::Layout> layout, std::optional<at::Device> device,
                      std::optional<bool> pinned, bool non_blocking, bool copies,
                      std::optional<at::MemoryFormat> format) {
  return at::native::to(tensor, dtype, layout, own(device), pinned, non_blocking, copies, format);
}

at::Tensor to_device(const at::Tensor& tensor, at::Device device, at::ScalarType dtype,
                     bool non_blocking, bool copies, std::optional<at::MemoryFormat> format) {
  return at::native::to(tensor, *own(device), dtype, non_blocking, copies, format);
}

void add_moves(torch::Library& library) {
  library.impl("to.dtype_layout", to_options);
  library.impl("to.device", to_device);
}

TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library_of_autograd) { add_moves(library_of_autograd); }

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  add_moves(library);
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", strided_view);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("view", view);
  library.impl("resize_", resize_to);
  library.impl("set_.source_Storage_storage_offset", set_storage);
}

}  // namespace

}  // namespace shardsim_torch
