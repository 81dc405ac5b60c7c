#include "sizes.hpp"

#include <numeric>

namespace shardsim_torch {

void check_dense(const char* kind, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    const bool is_dense = tensors.size() > 1 ? tensor.is_non_overlapping_and_dense()  // Coalesced.
                                             : tensor.is_contiguous(tensor.suggest_memory_format());
    TORCH_CHECK(is_dense, "shardsim: ", kind, ": a tensor of sizes ", tensor.sizes(),
                " and strides ", tensor.strides(),
                " is not contiguous; NCCL refuses it: call contiguous() before");
  }
}

void check_parts(const char* kind, const at::Tensor& whole, const at::Tensor& part, int members) {
  TORCH_CHECK(whole.scalar_type() == part.scalar_type(), "shardsim: ", kind, ": ",
              whole.scalar_type(), " and ", part.scalar_type(),
              " are two types; NCCL refuses that: input and output need one");
  TORCH_CHECK(whole.numel() == part.numel() * members, "shardsim: ", kind, ": ", whole.numel(),
              " elements are not ", part.numel(), " for each of ", members,
              " members; NCCL refuses that");
  check_dense(kind, {whole, part});
}

std::vector<std::int64_t> elements_of_rows(const at::Tensor& tensor,
                                           const std::vector<std::int64_t>& rows, int members) {
  check_dense("all_to_all", {tensor});
  const std::int64_t all = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (rows.empty()) {
    TORCH_CHECK(all % members == 0, "shardsim: all_to_all: ", all, " rows are no equal shares of ",
                members, " members; NCCL refuses that: give the sizes of the splits");
    return std::vector<std::int64_t>(static_cast<std::size_t>(members), tensor.numel() / members);
  }
  TORCH_CHECK(rows.size() == static_cast<std::size_t>(members),
              "shardsim: all_to_all: ", rows.size(), " splits for ", members,
              " members; NCCL refuses that");
  const std::int64_t sum = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  TORCH_CHECK(sum == all, "shardsim: all_to_all: the splits have ", sum, " rows and the tensor ",
              all, "; NCCL refuses that");
  std::vector<std::int64_t> elements;
  for (const std::int64_t count : rows) {
    elements.push_back(all == 0 ? 0 : count * (tensor.numel() / all));
  }
  return elements;
}

}  // namespace shardsim_torch
