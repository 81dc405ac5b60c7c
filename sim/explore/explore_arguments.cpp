#include "sim/explore/explore_arguments.hpp"

#include <charconv>

#include <CLI/CLI.hpp>

namespace shardsim {

namespace {

// More than anyone waits for.
constexpr int kMostSchedules = 1'000'000;
constexpr int kMostDepth = 100;

// CLI11 reads -1 and numbers beyond 64 bits as the largest seed.
std::string seed_problem(const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seed);
  if (error == std::errc() && stop == end) return "";
  return "\"" + text + "\" is not a whole number from 0 to 2^64 - 1";
}

}  // namespace

void add_explore_options(CLI::App& verb, ExploreArguments& arguments) {
  CLI::Option* const explore =
      verb.add_option("--explore", arguments.mode,
                      "Run under many schedules, watched: pct (drawn ones) or dpor (all there are)")
          ->check(CLI::IsMember({"pct", "dpor"}));
  verb.add_option("--schedules", arguments.schedules, "pct: schedules to draw")
      ->check(CLI::Range(1, kMostSchedules))
      ->needs(explore)
      ->capture_default_str();
  verb.add_option("--depth", arguments.depth,
                  "pct: events whose order matters, among receives from any source")
      ->check(CLI::Range(1, kMostDepth))
      ->needs(explore)
      ->capture_default_str();
  verb.add_option("--explore-seed", arguments.seed, "pct: what schedules are drawn from")
      ->check(seed_problem)
      ->needs(explore)
      ->capture_default_str();
  // Not bound as an optional: for those CLI11 takes an empty value for none.
  CLI::Option* const replay =
      verb.add_option_function<std::string>(
              "--replay", [&arguments](const std::string& token) { arguments.replay = token; },
              "Make the one run that a report's token names")
          ->excludes(explore);
  verb.add_flag("--replay-force", arguments.replay_force, "Take a token of another build")
      ->needs(replay);
  verb.add_flag("--shrink", arguments.shrink,
                "After a failure, look for a smaller scenario that fails with the same code");
}

}  // namespace shardsim
