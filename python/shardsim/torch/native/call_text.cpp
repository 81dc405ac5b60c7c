#include "call_text.hpp"

#include <utility>

#include "remote.hpp"

namespace shardsim_torch {

namespace {

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string list(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (const std::int64_t value : values) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + "]";
}

// Of types that a program file does not have, bytes are counted.
std::pair<std::string, std::int64_t> type_and_count(at::ScalarType type, std::int64_t elements) {
  switch (type) {
    case at::kDouble:
      return {"fp64", elements};
    case at::kFloat:
      return {"fp32", elements};
    case at::kBFloat16:
      return {"bf16", elements};
    case at::kHalf:
      return {"fp16", elements};
    case at::kFloat8_e4m3fn:
      return {"fp8_e4m3", elements};
    case at::kLong:
      return {"int64", elements};
    case at::kInt:
      return {"int32", elements};
    default:
      return {"int8", elements * static_cast<std::int64_t>(c10::elementSize(type))};
  }
}

// Whether a reduction is right where the file's type stands for the tensor's.
bool is_reduced_as_bytes(at::ScalarType type, const c10d::ReduceOp& op) {
  if (type == at::kBool) return op != c10d::ReduceOp::AVG;
  if (type == at::kByte) return op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::PRODUCT;
  return type == at::kChar || type_and_count(type, 1).first != "int8";
}

const char* word_of(const c10d::ReduceOp& op) {
  if (op == c10d::ReduceOp::SUM) return "sum";
  if (op == c10d::ReduceOp::AVG) return "avg";
  if (op == c10d::ReduceOp::MIN) return "min";
  if (op == c10d::ReduceOp::MAX) return "max";
  if (op == c10d::ReduceOp::PRODUCT) return "product";
  if (op == c10d::ReduceOp::PREMUL_SUM) return "sum";  // The factor costs nothing more.
  TORCH_CHECK(false, "shardsim: NCCL has no reduction like this one (bitwise)");
}

}  // namespace

CallText::CallText(const std::string& group, const std::string& kind)
    : text_("{\"group\": " + quoted(group) + ", \"kind\": " + quoted(kind)) {
  if (kind == "barrier") text_ += R"(, "dtype": "int8", "count": 0)";
}

CallText& CallText::full_buffer(const at::Tensor& part, std::int64_t elements) {
  type_ = part.scalar_type();
  const auto [type, count] = type_and_count(part.scalar_type(), elements);
  add("dtype", quoted(type));
  add("count", std::to_string(count));
  is_of_device_ = part.is_cuda();
  return *this;
}

CallText& CallText::buffer(const std::vector<at::Tensor>& parts) {
  std::int64_t elements = 0;
  for (const at::Tensor& part : parts) elements += part.numel();
  return full_buffer(parts.front(), elements);
}

CallText& CallText::parts(const at::Tensor& part, int count) {
  return full_buffer(part, part.numel() * count);
}

CallText& CallText::type(const at::Tensor& tensor) {
  const auto [type, bytes] = type_and_count(tensor.scalar_type(), 1);
  add("dtype", quoted(type));
  add("count", "0");
  elements_ = bytes;
  is_of_device_ = tensor.is_cuda();
  return *this;
}

CallText& CallText::chunks(const std::vector<at::Tensor>& parts) {
  std::vector<std::int64_t> counts;
  bool differ = false;
  for (const at::Tensor& part : parts) {
    counts.push_back(type_and_count(part.scalar_type(), part.numel()).second);
    differ = differ || counts.back() != counts.front();
  }
  if (differ) add("counts", list(counts));
  return *this;
}

CallText& CallText::counts(const std::vector<std::int64_t>& sent,
                           const std::vector<std::int64_t>& received) {
  const auto scaled = [this](std::vector<std::int64_t> counts) {
    for (std::int64_t& count : counts) count *= elements_;
    return counts;
  };
  add("send_counts", list(scaled(sent)));
  add("recv_counts", list(scaled(received)));
  return *this;
}

CallText& CallText::reduction(const c10d::ReduceOp& op) {
  std::string word = word_of(op);
  if (with_data()) {
    TORCH_CHECK(op != c10d::ReduceOp::PREMUL_SUM,
                "shardsim: a reduction with a factor cannot be verified yet");
    TORCH_CHECK(is_reduced_as_bytes(type_, op), "shardsim: ", word, " of ", c10::toString(type_),
                " cannot be verified yet");
    if (type_ == at::kBool && word == "sum") word = "max";  // NCCL's sum of truths is "or".
  }
  add("reduction", "\"" + word + "\"");
  return *this;
}

CallText& CallText::root(int member) {
  add("root", std::to_string(member));
  return *this;
}

CallText& CallText::messages(const std::vector<CallMessage>& messages) {
  std::string rows;
  for (const CallMessage& message : messages) {
    const auto [type, count] = type_and_count(message.tensor.scalar_type(), message.tensor.numel());
    rows += std::string(rows.empty() ? "" : ", ") + "{\"" + (message.sends ? "to" : "from") +
            "\": " + std::to_string(message.peer) + ", \"dtype\": " + quoted(type) +
            ", \"count\": " + std::to_string(count) + "}";
  }
  if (messages.size() == 1 && text_.find("\"batch\"") == std::string::npos) {
    const auto [type, count] =
        type_and_count(messages.front().tensor.scalar_type(), messages.front().tensor.numel());
    add("dtype", quoted(type));
    add("count", std::to_string(count));
    add("root", std::to_string(messages.front().peer));
  } else {
    add("dtype", quoted("int8"));
    add("count", "0");
  }
  add("messages", "[" + rows + "]");
  return *this;
}

}  // namespace shardsim_torch
