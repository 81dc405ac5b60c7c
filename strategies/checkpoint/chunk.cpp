#include "strategies/checkpoint/chunk.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

namespace shardsim {

namespace {

constexpr std::size_t kMaxNameLength = 512;
constexpr std::size_t kMaxTextLength = 4096;
constexpr std::size_t kMaxDimensions = 8;

std::string shortest(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), error == std::errc{} ? end : text.data()};
}

struct Describer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value) + " (int64)"; }
  std::string operator()(std::uint64_t value) const { return std::to_string(value) + " (uint64)"; }
  std::string operator()(double value) const { return shortest(value) + " (float64)"; }
  std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
};

}  // namespace

std::optional<std::string> problem_of_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength) {
    return "a name has 1 to " + std::to_string(kMaxNameLength) + " characters, this one " +
           std::to_string(name.size());
  }
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c < '\x7f' && c != '#' && c != '"' && c != '\\';
  });
  if (!plain) return std::string("a name is printable ASCII without space, '#', '\"' and '\\'");
  if (name == "__metadata__")
    return std::string("the name \"__metadata__\" is taken by the format");
  return std::nullopt;
}

std::optional<std::string> problem_of(const TensorInfo& tensor) {
  if (auto problem = problem_of_name(tensor.name)) return problem;
  if (tensor.shape.size() > kMaxDimensions || !checked_numel(tensor.shape)) {
    return "\"" + tensor.name + "\" has a shape with more than " + std::to_string(kMaxDimensions) +
           " or negative dimensions, or more bytes than 63 bits count";
  }
  return std::nullopt;
}

std::optional<std::string> problem_of(const TensorInfo& tensor,
                                      std::span<const ElementRun> elements, std::size_t num_bytes) {
  if (auto problem = problem_of(tensor)) return problem;
  if (auto problem = problem_of(elements, *checked_numel(tensor.shape))) {
    return "\"" + tensor.name + "\": " + *problem;
  }
  const auto wanted = static_cast<std::size_t>(num_elements(elements) * size_of(tensor.dtype));
  if (wanted != num_bytes) {
    return "\"" + tensor.name + "\": the elements take " + std::to_string(wanted) +
           " bytes, but there are " + std::to_string(num_bytes);
  }
  return std::nullopt;
}

std::optional<std::string> problem_of_scalar(std::string_view name, const ScalarValue& value) {
  if (auto problem = problem_of_name(name)) return problem;
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return std::nullopt;
  const bool plain =
      std::all_of(text->begin(), text->end(), [](char c) { return c >= ' ' && c < '\x7f'; });
  if (plain && text->size() <= kMaxTextLength) return std::nullopt;
  return "scalar \"" + std::string(name) + "\" is no text of at most " +
         std::to_string(kMaxTextLength) + " printable ASCII characters";
}

bool is_whole(const TensorInfo& tensor, std::span<const ElementRun> elements) {
  return elements.size() == 1 && elements[0].repeats == 1 &&
         elements[0].count == checked_numel(tensor.shape);
}

std::string describe(const TensorInfo& tensor) {
  std::string text = std::string(name_of(tensor.dtype)) + " [";
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(tensor.shape[d]);
  }
  return text + "]";
}

std::string describe(const ScalarValue& value) { return std::visit(Describer{}, value); }

bool same_scalar(const ScalarValue& a, const ScalarValue& b) {
  if (a.index() != b.index()) return false;
  if (const double* number = std::get_if<double>(&a)) {
    return std::bit_cast<std::uint64_t>(*number) ==
           std::bit_cast<std::uint64_t>(*std::get_if<double>(&b));
  }
  return a == b;
}

}  // namespace shardsim
