#pragma once

#include <string>
#include <vector>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"
#include "scenarios/scenario_error.hpp"

// Keys of config.json that no reader of the importer asks for. Each is harmless by a table, names a
// feature that is not supported, or is refused: nothing is dropped unseen.
namespace shardsim {

/// The reasons to refuse a file, gathered over its objects.
struct HfReasons {
  std::vector<std::string> features;  ///< Not supported; without a full stop.
  ProblemList unknown;                ///< Keys in no table, with their places.
  std::vector<ForeignValue> keys;     ///< The same keys.
};

/// Adds the features that a key alone shows, whatever the family: sparse indexers, compressed
/// attention, hyper-connections. With their size where a formula is known.
void add_hf_features(ForeignObject& config, std::vector<std::string>& features);

/// The fate of the keys that no reader has asked for: rows for harmless ones and for those that the
/// user must look at, reasons for others. A key that says nothing (null, false, 0, empty) is never
/// one.
void file_unread_hf_keys(const ForeignObject& config, Import& import, HfReasons& reasons);

/// Throws UsageError E1355 with all reasons, or ScenarioError E1347 where keys are unknown and that
/// is all. With `approximate` each reason becomes a row that needs the user.
void refuse_or_warn(const HfReasons& reasons, const std::string& file, bool approximate,
                    Import& import);

}  // namespace shardsim
