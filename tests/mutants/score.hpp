#pragma once

#include <string>

#include "reports/result.hpp"

#include "tests/mutants/mutant.hpp"

// The score of the whole suite, by the detector that finds each mutant. Every mutant of every test
// case counts here, and the score is printed when the program ends.
namespace shardsim::test {

/// One step of its scenario, with the bug.
[[nodiscard]] Result result_of(const Mutant& mutant);

/// The detector that ends a run with a bug.
[[nodiscard]] Detector finder_in(const Diagnosis& diagnosis);
[[nodiscard]] Detector finder_in(const Result& result);

/// Counts a mutant. Fails the test unless it is found by who is to find it.
void count_mutant(Detector expected, Detector found_by);
/// Counts a mutant that no detector can find yet. Fails the test as soon as one does: then it is a
/// mutant like the others. `reason` is printed with the score.
void count_survivor(const std::string& bug, const std::string& reason, Detector found_by);

}  // namespace shardsim::test
