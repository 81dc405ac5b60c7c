#include "sim/run/state/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::size_t kAlignment = 8;
constexpr const char* kMetadata = "__metadata__";

const char* safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return "F64";
    case DType::fp32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::fp16:
      return "F16";
    case DType::int64:
      return "I64";
    case DType::int32:
      return "I32";
    case DType::int8:
      return "I8";
    case DType::fp8_e4m3:
      return "F8_E4M3";
  }
  throw UsageError("E0955", "safetensors has no name for this dtype", "use another dtype");
}

std::string quoted(const std::string& text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (!is_plain) {
    throw UsageError("E0955", "a name or a text of a safetensors file is not plain ASCII",
                     "use letters, digits and punctuation other than quotes and backslashes");
  }
  return "\"" + text + "\"";
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    text += (axis > 0 ? "," : "") + std::to_string(shape[axis]);
  }
  return text + "]";
}

}  // namespace

std::string to_safetensors(std::vector<NamedTensor> tensors,
                           const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const auto order = [](const NamedTensor& each) {
      return std::tuple(-size_of(each.values.dtype()), std::string_view(each.name));
    };
    return order(a) < order(b);
  });
  std::string header = "{" + quoted(kMetadata) + ":{";
  for (const auto& [key, value] : metadata) {
    header += (header.ends_with('{') ? "" : ",") + quoted(key) + ":" + quoted(value);
  }
  header += "}";
  std::map<std::string_view, int> uses = {{kMetadata, 1}};
  std::int64_t end = 0;
  for (const NamedTensor& each : tensors) {
    if (++uses[each.name] > 1) {
      throw UsageError("E0955", "two tensors of a safetensors file are called " + each.name,
                       "give each a name of its own");
    }
    const std::int64_t first = end;
    end += each.values.num_bytes();
    header += fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                          quoted(each.name), safetensors_name(each.values.dtype()),
                          shape_text(each.values.shape()), first, end);
  }
  header += "}";
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');

  std::string file;
  file.reserve(sizeof(std::uint64_t) + header.size() + static_cast<std::size_t>(end));
  const std::uint64_t length = header.size();
  file.append(reinterpret_cast<const char*>(&length), sizeof length);
  file += header;
  for (const NamedTensor& each : tensors) {
    if (each.values.num_bytes() == 0) continue;
    file.append(reinterpret_cast<const char*>(each.values.wire_data()),
                static_cast<std::size_t>(each.values.num_bytes()));
  }
  return file;
}

}  // namespace shardsim
