#pragma once

#include <string>
#include <string_view>

#include <ATen/ATen.h>

#include "device.hpp"

namespace shardsim_torch {

/// An operator with all that its price depends on, as a text: name, then tensors it reads (i),
/// changes (c) and makes (o), each as dtype[sizes;strides], whole numbers among its arguments, and
/// the lengths (#) of lists.
class Signature {
 public:
  explicit Signature(std::string name, const std::string& overload = "") : text_(std::move(name)) {
    if (!overload.empty()) text_ += "." + overload;
  }

  void input(const at::Tensor& tensor) { add('i', tensor); }
  void change(const at::Tensor& tensor) { add('c', tensor); }
  void output(const at::Tensor& tensor) { add('o', tensor); }
  void flag(std::string_view name, bool value) {
    if (value) text_ += " " + std::string(name) + "=1";
  }
  void argument(const std::string& name, const c10::IValue& value) {
    if (value.isBool()) flag(name, value.toBool());
    if (value.isInt()) text_ += " " + name + "=" + std::to_string(value.toInt());
    if (value.isTensorList()) {
      text_ += " " + name + "#=" + std::to_string(value.toTensorList().size());
    }
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void add(char role, const at::Tensor& tensor) {
    text_ += ' ';
    text_ += role;
    text_ += ':';
    text_ += c10::toString(tensor.scalar_type());
    text_ += '[';
    list(tensor.sizes());
    text_ += ';';
    list(tensor.strides());
    text_ += ']';
    if (tensor.is_cpu()) text_ += 'h';
  }
  void list(at::IntArrayRef values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) text_ += ',';
      text_ += std::to_string(values[i]);
    }
  }

  std::string text_;
};

/// Writes it to the log, for the stream and the place at which the thread is.
inline void log_op(const Signature& signature) {
  Log::get().add_op(current_stream(), signature.text(), current_place());
}

}  // namespace shardsim_torch
