#pragma once

#include <cstdint>
#include <map>
#include <string>

// Random scenarios as text, as users write them; the loader then accepts or refuses them.
// RapidCheck draws them, so a property that fails shrinks them and prints its seed.
namespace shardsim::test {

/// A scenario by its fields. For a scenario at the edge of validity, draw one and change fields.
class DrawnScenario {
 public:
  /// `field`: "training.precision". `json`: its value as JSON, such as "0.5" or "true".
  void set(const std::string& field, const std::string& json) { fields_[field] = json; }
  void set(const std::string& field, std::int64_t number) { set(field, std::to_string(number)); }
  void set_word(const std::string& field, const std::string& word) {
    set(field, "\"" + word + "\"");
  }
  void erase(const std::string& field) { fields_.erase(field); }

  /// The field's value as JSON; empty if the scenario leaves it to its default.
  [[nodiscard]] std::string get(const std::string& field) const;
  [[nodiscard]] const std::map<std::string, std::string>& fields() const { return fields_; }
  /// The text of a user's file; ends with a line break.
  [[nodiscard]] std::string text() const;

 private:
  std::map<std::string, std::string> fields_;
};

/// The most ranks of a drawn scenario.
inline constexpr std::int64_t kMostDrawnRanks = 8;

/// A tiny model that trains with real tensors for 1 to 3 steps. Draws any family, layout, schedule,
/// precision, type of reduction and optimizer; the optimizer's settings are its defaults. Most
/// draws are valid; the loader refuses the rest. Call it within a property.
[[nodiscard]] DrawnScenario draw_verify_scenario();

}  // namespace shardsim::test
