#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

// A call as a row of a program file (docs/guide/program-format.md, "call").
namespace shardsim_torch {

struct CallMessage {
  bool sends = false;
  int peer = 0;  ///< Its place in the group.
  at::Tensor tensor;
};

class CallText {
 public:
  CallText(const std::string& group, const std::string& kind);

  /// Type and elements of the full buffer, which are the parts' together.
  CallText& buffer(const std::vector<at::Tensor>& parts);
  /// The same, of so many equal parts.
  CallText& parts(const at::Tensor& part, int count);
  CallText& type(const at::Tensor& tensor);
  /// Elements of each member's part, if they are not equal.
  CallText& chunks(const std::vector<at::Tensor>& parts);
  CallText& counts(const std::vector<std::int64_t>& sent,
                   const std::vector<std::int64_t>& received);
  CallText& reduction(const c10d::ReduceOp& op);
  CallText& root(int member);
  CallText& messages(const std::vector<CallMessage>& messages);

  [[nodiscard]] bool is_of_device() const { return is_of_device_; }
  [[nodiscard]] std::string text() const { return text_ + "}"; }

 private:
  CallText& full_buffer(const at::Tensor& part, std::int64_t elements);
  void add(const std::string& key, const std::string& value) {
    text_ += ", \"" + key + "\": " + value;
  }

  std::string text_;
  bool is_of_device_ = true;
  at::ScalarType type_ = at::kFloat;
  std::int64_t elements_ = 1;  // Of the file's type, for one of the tensor's.
};

}  // namespace shardsim_torch
