#include <algorithm>
#include <optional>

#include <ATen/ATen.h>
#include <torch/library.h>

#include "device.hpp"
#include "order.hpp"
#include "remote.hpp"
#include "signature.hpp"

// Where values matter: what the host reads, copies, and counts of tokens. Tensors without data give
// declared values.
namespace shardsim_torch {

namespace {

// --- Values that the host reads ----------------------------------------------------------------

// What the host reads of a tensor without data: nothing is infinite, and nothing is zero by chance.
at::Scalar declared_value(at::ScalarType type) {
  if (type == at::kBool) return {false};
  return at::isFloatingType(type) ? at::Scalar(1.0) : at::Scalar(1);
}

at::Scalar local_scalar_dense(const at::Tensor& tensor) {
  if (with_data()) Order::get().touch(tensor, false, current_stream());
  Log::get().add({.kind = EntryKind::synchronize, .stream = current_stream()});
  if (is_known(tensor)) return on_host(tensor).item();
  Log::get().add_read(current_stream(), python_site());
  return declared_value(tensor.scalar_type());
}

void log_copy(const at::Tensor& to, const at::Tensor& from) {
  Signature signature("aten::copy_");
  signature.input(from);
  signature.output(to);
  signature.flag("to_host", to.is_cpu());
  signature.flag("from_host", from.is_cpu());
  log_op(signature);
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  TORCH_CHECK(at::is_expandable_to(from.sizes(), to.sizes()), "The size of tensor a ", to.sizes(),
              " must match the size of tensor b ", from.sizes());
  if (with_data()) {
    if (to.is_cuda()) Order::get().touch(to, true, current_stream());
    if (from.is_cuda()) Order::get().touch(from, false, current_stream());
  } else {
    log_copy(to, from);
  }
  // CUDA's host waits for copies in both directions.
  if ((to.is_cpu() || from.is_cpu()) && !non_blocking) {
    Log::get().add({.kind = EntryKind::synchronize, .stream = current_stream()});
  }
  if (is_known(from) && is_small(to)) {
    on_host(to).copy_(on_host(from));
    set_known(to);
  } else if (to.is_cpu()) {
    Log::get().add_read(current_stream(), python_site());
    to.fill_(declared_value(to.scalar_type()));
  } else {
    set_unknown(to);
  }
  return to;
}

// --- Counts of tokens --------------------------------------------------------------------------

// Indices without data are uniform: their counts differ by one at most, and add up.
at::Tensor uniform_counts(const at::Tensor& indices, std::int64_t bins, at::ScalarType type,
                          const char* name) {
  at::Tensor counts = at::empty({bins}, at::kLong);
  auto* const values = counts.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < bins; ++i) {
    values[i] = indices.numel() / bins + (i < indices.numel() % bins ? 1 : 0);
  }
  at::Tensor made = at::empty({bins}, at::dtype(type).device(c10::kCUDA));
  if (is_small(made)) {
    on_host(made).copy_(counts);
    set_known(made);
  }
  Signature signature(name);
  signature.input(indices);
  signature.output(made);
  log_op(signature);
  return made;
}

at::Tensor on_device(const at::Tensor& tensor) {
  at::Tensor made = at::empty(tensor.sizes(), tensor.options().device(c10::kCUDA));
  if (is_small(made)) on_host(made).copy_(tensor);
  return made;
}

at::Tensor bincount(const at::Tensor& indices, const std::optional<at::Tensor>& weights,
                    std::int64_t minlength) {
  if (with_data()) {
    return on_device(at::bincount(
        on_host(indices), weights ? std::optional(on_host(*weights)) : std::nullopt, minlength));
  }
  return uniform_counts(indices, std::max<std::int64_t>(minlength, 1), at::kLong, "aten::bincount");
}

at::Tensor histc(const at::Tensor& indices, std::int64_t bins, const at::Scalar& least,
                 const at::Scalar& most) {
  if (with_data())
    return on_device(
        at::histc(on_host(indices).to(at::kDouble), bins, least, most).to(indices.scalar_type()));
  return uniform_counts(indices, bins, indices.scalar_type(), "aten::histc");
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("copy_", copy);
  library.impl("_local_scalar_dense", local_scalar_dense);
  library.impl("bincount", bincount);
  library.impl("histc", histc);
}

}  // namespace

}  // namespace shardsim_torch
