#pragma once

#include <string>
#include <vector>

#include "scenarios/load.hpp"

// Shared by the tests of the loader: small valid texts and a way to ask for the problems of a text.
namespace shardsim::testing {

/// A valid scenario with one value per line, so that the position of each is easy to count.
std::string valid_text();

/// The same of gpt2, whose keys have biases.
std::string gpt_text();

/// valid_text() with the first `from` replaced by `to`. REQUIRES: `from` is there.
std::string valid_text_with(const std::string& from, const std::string& to);

/// `text` with the first `from` replaced by `to`. REQUIRES: `from` is there.
std::string replaced(std::string text, const std::string& from, const std::string& to);

/// The problems of a text; none if it loads.
std::vector<Problem> problems_of(const std::string& text,
                                 const std::vector<std::string>& overrides = {});

/// The only problem of a text. Fails the test if there is not exactly one.
Problem only_problem_of(const std::string& text, const std::vector<std::string>& overrides = {});

/// Content of a file, by its path from the root of the repository.
std::string content_of(const std::string& path);

/// Loads scenarios/quickstart.json and its like.
Scenario loaded(const std::string& text, const std::vector<std::string>& overrides = {});

}  // namespace shardsim::testing
