#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/harness/drawn_check.hpp"

namespace shardsim {

namespace {

std::string quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + '"';
}

template <class Elements, class ToText>
std::string braced(const Elements& elements, const ToText& to_text) {
  std::string text;
  for (const auto& element : elements) text += (text.empty() ? "" : ", ") + to_text(element);
  return "{" + text + "}";
}

// Fields that are not as they are by default, as designated initializers.
std::string text_of(const MeshShape& shape) {
  const MeshShape plain;
  std::vector<std::string> fields;
  const auto add = [&](const char* name, const auto& value, const auto& usual, std::string text) {
    if (value != usual) fields.push_back(fmt::format(".{} = {}", name, std::move(text)));
  };
  const auto add_number = [&](const char* name, int value, int usual) {
    add(name, value, usual, std::to_string(value));
  };
  add_number("dp_shard", shape.dp_shard, plain.dp_shard);
  add_number("dp_replicate", shape.dp_replicate, plain.dp_replicate);
  add_number("tp", shape.tp, plain.tp);
  add_number("pp", shape.pp, plain.pp);
  add_number("cp", shape.cp, plain.cp);
  add_number("ep", shape.ep, plain.ep);
  add_number("etp", shape.etp, plain.etp);
  add_number("dispatch_nodes", shape.dispatch_nodes, plain.dispatch_nodes);
  add("order", shape.order, plain.order, "shardsim::RankOrder::dp_tp_pp");
  add("v_placement", shape.v_placement, plain.v_placement, "true");
  add("tp_copies", shape.tp_copies, plain.tp_copies,
      braced(shape.tp_copies, [](int copies) { return std::to_string(copies); }));
  add("joins_tp_parts", shape.joins_tp_parts, plain.joins_tp_parts, "true");
  return "shardsim::MeshShape" + braced(fields, [](const std::string& field) { return field; });
}

std::string text_of(ExploreMode mode) {
  switch (mode) {
    case ExploreMode::none:
      return "shardsim::ExploreMode::none";
    case ExploreMode::pct:
      return "shardsim::ExploreMode::pct";
    case ExploreMode::dpor:
      return "shardsim::ExploreMode::dpor";
  }
  return {};
}

std::string functions_of(const CheckOptions& options) {
  std::string names;
  const auto add = [&](bool is_given, const char* name) {
    if (is_given) names += (names.empty() ? "options." : ", options.") + std::string(name);
  };
  add(static_cast<bool>(options.reference), "reference");
  add(options.trusted.has_value(), "trusted");
  add(static_cast<bool>(options.bytes_sent), "bytes_sent");
  add(static_cast<bool>(options.peak_bytes), "peak_bytes");
  return names;
}

}  // namespace

std::string test_text(const CheckOptions& options, const std::string& program,
                      const Diagnosis& failure) {
  const CheckOptions plain;
  std::string text = fmt::format("TEST_CASE({}) {{\n  shardsim::CheckOptions options;\n",
                                 quoted(fmt::format("{}: no {}", options.name, failure.code)));
  const auto set = [&](const char* field, const std::string& value) {
    text += fmt::format("  options.{} = {};\n", field, value);
  };
  const auto set_unless = [&](bool usual, const char* field, const std::string& value) {
    if (!usual) set(field, value);
  };
  const auto number = [](auto value) { return std::to_string(value); };
  set("name", quoted(options.name));
  if (options.layouts.empty()) {
    set("ranks", braced(options.ranks, number));
  } else {
    set("layouts", braced(options.layouts, [](const MeshShape& shape) { return text_of(shape); }));
  }
  set_unless(options.extents.empty(), "extents", braced(options.extents, [](const Extent& one) {
               return fmt::format("{{{}, {}}}", quoted(one.name), one.value);
             }));
  set_unless(options.steps == plain.steps, "steps", number(options.steps));
  set_unless(options.seeds == plain.seeds, "seeds", braced(options.seeds, number));
  set_unless(options.precision == plain.precision, "precision",
             fmt::format("shardsim::DType::{}", name_of(options.precision)));
  set_unless(options.tolerance == plain.tolerance, "tolerance",
             fmt::format("{}", options.tolerance));
  const Exploration& explore = options.explore;
  set_unless(explore.mode == plain.explore.mode, "explore.mode", text_of(explore.mode));
  set_unless(explore.schedules == plain.explore.schedules, "explore.schedules",
             number(explore.schedules));
  set_unless(explore.depth == plain.explore.depth, "explore.depth", number(explore.depth));
  set_unless(explore.seed == plain.explore.seed, "explore.seed", number(explore.seed));
  set_unless(options.watch_buffers, "watch_buffers", "false");
  if (const std::string functions = functions_of(options); !functions.empty()) {
    text += "  // As in the check that was drawn: " + functions + ".\n";
  }
  return text + fmt::format("  CHECK_THAT(shardsim::check({}, options), shardsim::Passes());\n}}\n",
                            program);
}

}  // namespace shardsim
