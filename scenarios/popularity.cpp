#include "scenarios/popularity.hpp"

#include <cmath>
#include <optional>

#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"

namespace shardsim {

namespace {

// These limits allow 16,384 experts or 4,096 layers, and both at once in any real model.
constexpr JsonLimits kLimits = {.max_bytes = std::size_t{8} << 20U,
                                .max_depth = 3,
                                .max_string_bytes = 64,
                                .max_nodes = std::size_t{1} << 18U};

class PopularityReader {
 public:
  PopularityReader(std::int64_t num_experts, std::int64_t num_layers, ProblemList& problems)
      : num_experts_(num_experts), num_layers_(num_layers), problems_(problems) {}

  Popularity read(const JsonValue& file) {
    if (!file.is_array() || file.array().empty()) {
      refuse(file, "", "it must be a list of weights, or of such lists, not " + describe(file));
      return {};
    }
    Popularity popularity;
    if (!file.array().front().is_array()) {
      popularity.push_back(weights_of(file, ""));
    } else if (static_cast<std::int64_t>(file.array().size()) != num_layers_) {
      refuse(file, "",
             "it has " + std::to_string(file.array().size()) + " lists, but " +
                 std::to_string(num_layers_) + " layers have experts");
    } else {
      for (std::size_t layer = 0; layer < file.array().size(); ++layer) {
        popularity.push_back(
            weights_of(file.array()[layer], pointer_to("", std::to_string(layer))));
      }
    }
    return popularity;
  }

 private:
  void refuse(const JsonValue& value, const std::string& pointer, const std::string& what) {
    problems_.add("E0213", value.span, pointer, "the popularity of experts cannot be read: " + what,
                  "list " + std::to_string(num_experts_) +
                      " numbers of 0 or more, once for all layers or for each with experts");
  }

  std::vector<double> weights_of(const JsonValue& list, const std::string& pointer) {
    std::vector<double> weights;
    if (!list.is_array() || static_cast<std::int64_t>(list.array().size()) != num_experts_) {
      refuse(
          list, pointer,
          (list.is_array() ? "a list of " + std::to_string(list.array().size()) : describe(list)) +
              " stands where the weights of " + std::to_string(num_experts_) + " experts must");
      return weights;
    }
    double sum = 0.0;
    for (std::size_t expert = 0; expert < list.array().size(); ++expert) {
      const JsonValue& value = list.array()[expert];
      const auto* whole = std::get_if<std::int64_t>(&value.data);
      const auto* number = std::get_if<double>(&value.data);
      const double weight = whole != nullptr    ? static_cast<double>(*whole)
                            : number != nullptr ? *number
                                                : -1.0;
      if (!(weight >= 0.0 && weight <= kLargest)) {
        refuse(value, pointer_to(pointer, std::to_string(expert)),
               "a weight is " + describe(value) + ", it must be a number from 0 to 1e15");
        return {};
      }
      weights.push_back(weight);
      sum += weight;
    }
    if (!(sum > 0.0)) refuse(list, pointer, "all weights are 0");
    return weights;
  }

  static constexpr double kLargest = 1e15;
  std::int64_t num_experts_;
  std::int64_t num_layers_;
  ProblemList& problems_;
};

}  // namespace

Popularity read_popularity(const std::string& path, std::int64_t num_experts,
                           std::int64_t num_layers, ProblemList& problems) {
  const std::optional<std::string> text = read_regular_file(path, kLimits.max_bytes, problems);
  if (!text) return {};
  const SourceText source{.name = path, .text = *text};
  const std::optional<JsonValue> file = parse_json(source, problems, kLimits);
  return file ? PopularityReader(num_experts, num_layers, problems).read(*file) : Popularity{};
}

}  // namespace shardsim
