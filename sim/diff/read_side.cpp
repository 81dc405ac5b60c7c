#include "sim/diff/read_side.hpp"

#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "reports/json_writer.hpp"
#include "scenarios/load.hpp"
#include "sim/diff/comparison.hpp"
#include "sim/diff/measured_side.hpp"

namespace shardsim {

namespace {

constexpr unsigned char kGzip = 0x1f;  // The first byte of a gzip file (RFC 1952).

[[noreturn]] void refuse(const std::string& path, const std::string& help) {
  throw UsageError("E1341",
                   fmt::format("{} is no result, no scenario, no Megatron-LM log and no profiler "
                               "trace",
                               path),
                   help);
}

std::ifstream opened(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // A folder opens, but has nothing to read.
  if (file) file.peek();
  if (file && !file.eof()) return file;
  throw UsageError("E1343", fmt::format("cannot read {}, or it is empty", path),
                   "check the path and its permissions");
}

std::string first_characters(std::istream& file) {
  constexpr std::size_t kTwo = 2;
  std::string characters(kTwo, '\0');
  file >> std::ws;
  file.read(characters.data(), kTwo);
  file.clear();
  file.seekg(0);
  return characters;
}

// A scenario may begin with a comment; "/usr/lib/python3/..." is a line of a log.
bool begins_json(const std::string& characters) {
  return characters[0] == '{' || characters == "//" || characters == "/*";
}

// A run made here also reports its exposed communication by axis.
RunSide run_side(const SideRequest& request, RunHooks hooks) {
  Scenario scenario = load_scenario(request.path, request.overrides);
  scenario.output.trace.clear();
  hooks.detail = true;
  const RunOutcome outcome = run_scenario(std::move(scenario), hooks);
  RunSide side = side_of_result(to_json(outcome.result), request.path, false);
  if (outcome.detail) add_axes(side, outcome.detail->axes);
  return side;
}

RunSide read_json_side(const SideRequest& request, std::ifstream& file, const RunHooks& hooks) {
  const std::string& path = request.path;
  JsonOutline outline = outline_json(file);
  if (outline.trace) {
    if (outline.is_json && outline.trace->step_ps > 0) return *outline.trace;
    throw UsageError("E1342",
                     outline.is_json ? fmt::format("the trace {} shows no work of a GPU", path)
                                     : fmt::format("the trace {} is cut off or damaged", path),
                     "record it with ProfilerActivity.CUDA, and export it whole");
  }
  if (outline.is_json && outline.has("metrics") && outline.has("scenario")) {
    file.clear();
    file.seekg(0);
    const std::string json((std::istreambuf_iterator<char>(file)), {});
    return side_of_result(json, path, request.measured);
  }
  return run_side(request, hooks);
}

}  // namespace

RunSide read_side(const SideRequest& request, const RunHooks& hooks) {
  const std::string& path = request.path;
  std::ifstream file = opened(path);
  const std::string first = first_characters(file);
  if (static_cast<unsigned char>(first[0]) == kGzip) {
    refuse(path, "it is compressed: unpack it with gunzip first");
  }
  RunSide side;
  if (begins_json(first)) {
    side = read_json_side(request, file, hooks);
  } else if (std::optional<RunSide> logged = read_megatron_log(file)) {
    side = *logged;
  } else {
    refuse(path, "a log has lines with \"elapsed time per iteration (ms):\"");
  }
  side.file = path;
  return side;
}

}  // namespace shardsim
