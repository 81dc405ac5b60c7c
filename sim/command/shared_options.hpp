#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

// Options that several verbs take, or that fill the arguments of another room. CLI11 is included in
// this folder alone: each file that does costs ten seconds to compile.
namespace shardsim {

struct ExploreArguments;
struct ProcessOptions;

/// Declares --json, meaning `json_words`, and --output-format. `junit`: null for a verb that has no
/// test cases to print.
void add_output_format(CLI::App& verb, bool& json, bool& annotations, const char* json_words,
                       bool* junit = nullptr);

/// --backend and its options.
void add_process_options(CLI::App& verb, ProcessOptions& process);

/// --explore and its options, --replay, --shrink: options of `shardsim run`.
void add_explore_options(CLI::App& verb, ExploreArguments& arguments);

}  // namespace shardsim
