#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/dtype.hpp"

#include "sim/hardware/compute_op.hpp"

#include "backends/program/program.hpp"

#include "scenarios/suggest.hpp"

#include "sim/programs/program_set.hpp"
#include "sim/programs/program_words.hpp"

// One line of a program file as fields, and the rows that are made of them.
namespace shardsim {

using ProgramJson = nlohmann::ordered_json;

// The largest numbers that are read: far above all trainings, far below where sums overflow.
inline constexpr std::int64_t kMostProgramWork = std::int64_t{1} << 60;   // Operations, bytes.
inline constexpr std::int64_t kMostProgramSize = std::int64_t{1} << 40;   // A matrix, on one axis.
inline constexpr std::int64_t kMostProgramRanks = std::int64_t{1} << 20;  // As a replay has.
inline constexpr std::int64_t kMostTallyCounts = std::int64_t{1} << 20;
inline constexpr std::int64_t kMostTrainingSteps = std::int64_t{1} << 31;

// One JSON object, whose keys are taken one by one.
class ProgramFields {
 public:
  ProgramFields(const ProgramJson& json, std::string place)
      : json_(json), place_(std::move(place)) {
    if (!json.is_object()) refuse("an object is expected here", "write {...}");
  }

  [[noreturn]] void refuse(const std::string& cause, const std::string& fix) const {
    throw bad_program(place_, cause, fix);
  }
  [[nodiscard]] const std::string& place() const { return place_; }

  // Null: there is none.
  const ProgramJson* find(const char* key) {
    const auto found = json_.find(key);
    if (found == json_.end()) return nullptr;
    ++num_taken_;
    return &*found;
  }
  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }
  const ProgramJson& at(const char* key) {
    if (const ProgramJson* const found = find(key)) return *found;
    refuse(fmt::format("\"{}\" is missing", key), "docs/guide/program-format.md lists the keys");
  }
  // Whether a key was there that nobody has asked for.
  void end() const {
    if (num_taken_ == json_.size()) return;
    refuse(
        fmt::format("{} of {} keys have no meaning here", json_.size() - num_taken_, json_.size()),
        "remove them, or compare with docs/guide/program-format.md");
  }

  std::int64_t number(const ProgramJson& json, const char* key, std::int64_t least,
                      std::int64_t most) const {
    if (json.is_number_integer() &&
        (!json.is_number_unsigned() || json.get<std::uint64_t>() <= std::uint64_t(INT64_MAX))) {
      const auto value = json.get<std::int64_t>();
      if (value >= least && value <= most) return value;
    }
    refuse(fmt::format("\"{}\" is {}", key, shown(json)),
           fmt::format("write a whole number from {} to {}", least, most));
  }
  std::int64_t number(const char* key, std::int64_t least, std::int64_t most) {
    return number(at(key), key, least, most);
  }
  std::int64_t number_or(std::int64_t otherwise, const char* key, std::int64_t least,
                         std::int64_t most) {
    const ProgramJson* const found = find(key);
    return found == nullptr ? otherwise : number(*found, key, least, most);
  }
  std::string text(const char* key) {
    const ProgramJson& json = at(key);
    if (!json.is_string()) refuse(fmt::format("\"{}\" is {}", key, shown(json)), "write a text");
    return json.get<std::string>();
  }
  bool truth(const char* key) {
    const ProgramJson* const found = find(key);
    if (found == nullptr) return false;
    if (!found->is_boolean()) {
      refuse(fmt::format("\"{}\" is {}", key, shown(*found)), "write true or false");
    }
    return found->get<bool>();
  }
  std::vector<std::int64_t> numbers(const char* key, std::int64_t most) {
    std::vector<std::int64_t> list;
    const ProgramJson* const found = find(key);
    if (found == nullptr) return list;
    for (const ProgramJson& each : array(*found, key)) list.push_back(number(each, key, 0, most));
    return list;
  }
  const ProgramJson& array(const ProgramJson& json, const char* key) const {
    if (!json.is_array()) refuse(fmt::format("\"{}\" is {}", key, shown(json)), "write a list");
    return json;
  }
  // The place of the key's text among `size` words, each of which `word` gives.
  template <class Word>
  std::size_t choice(const char* key, std::size_t size, const Word& word) {
    const std::string given = text(key);
    std::vector<std::string> words;
    for (std::size_t i = 0; i < size; ++i) {
      words.emplace_back(word(i));
      if (words.back() == given) return i;
    }
    refuse(fmt::format("\"{}\" is \"{}\"", key, given), "write " + one_of_list(words));
  }
  template <class Enum, std::size_t N>
  Enum choice(const char* key, const std::array<const char*, N>& words) {
    return static_cast<Enum>(choice(key, N, [&](std::size_t i) { return words.at(i); }));
  }
  DType dtype() {
    return static_cast<DType>(
        choice("dtype", kNumDTypes, [](std::size_t i) { return name_of(static_cast<DType>(i)); }));
  }

 private:
  static std::string shown(const ProgramJson& json) {
    constexpr std::size_t kMost = 60;
    const std::string text = json.dump(-1, ' ', true, ProgramJson::error_handler_t::replace);
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  }

  const ProgramJson& json_;
  std::string place_;
  std::size_t num_taken_ = 0;
};

/// The first line of a program file.
struct ProgramHeader {
  std::string name = {};
  int ranks = 0;
  int neighbours = 1;
  ProgramSettings settings = {};
  std::vector<std::string> notes = {};
  std::optional<int> recorded = {};  ///< In the record of a single rank, whose it is.
};
[[nodiscard]] ProgramHeader program_header_of(ProgramFields& fields);

/// `name` outlives the row.
[[nodiscard]] ComputeOp program_operation_of(ProgramFields& fields, const std::string& name);
/// `label` gets the call's, and outlives the row. The group is not looked at.
[[nodiscard]] ProgramCall program_call_of(ProgramFields& fields, std::string& label);
[[nodiscard]] ProgramMark program_mark_of(ProgramFields& fields);
/// `module` outlives the row.
[[nodiscard]] ProgramPlace program_place_of(ProgramFields& fields, std::string& module);
[[nodiscard]] ProgramGroup program_group_of(const ProgramJson& json, const std::string& place);
[[nodiscard]] ProgramJson program_json_of(const ProgramGroup& group);

}  // namespace shardsim
