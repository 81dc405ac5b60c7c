#include "sim/harness/trusted_reference.hpp"

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/checkpoint/payload.hpp"

#include "sim/harness/shown_state.hpp"

namespace shardsim {

namespace {

constexpr std::string_view kMaster = "master";

// --- The library's model -----------------------------------------------------------------------

// "gradient.w" of (gradient, "w"), "optimizer.exp_avg.w" of (optimizer state, "w (exp_avg)").
std::string dump_name_of(const ShownState::Piece& piece) {
  switch (piece.what) {
    case Shown::gradient:
      return "gradient." + piece.name;
    case Shown::parameter:
      return "parameter." + piece.name;
    case Shown::optimizer_state: {
      const std::size_t open = piece.name.rfind(" (");
      const std::string state = piece.name.substr(open + 2, piece.name.size() - open - 3);
      const std::string name = piece.name.substr(0, open);
      return (state == kMaster ? "" : "optimizer.") + state + "." + name;
    }
    default:
      return piece.name;
  }
}

void show_values_of(RankContext& context, const ShownName& as, const std::vector<double>& values,
                    const ShowOptions& options, const CallSite& site) {
  if (values.size() == 1) {
    context.show(as.what, as.name, values.front(), options, site);
    return;
  }
  const Tensor tensor = context.tensor(
      std::ssize(values), [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
  context.show(as.what, as.name, tensor, options, site);
}

// Runs a program that shows tensors, and shows those that have a name by that name.
void show_renamed(const Program& program, const ReferenceNames& names, RankContext& context) {
  ShownState shown;
  const RankContext::Setting setting = {.steps = context.steps(),
                                        .seed = context.seed(),
                                        .precision = context.precision(),
                                        .layout = nullptr};
  RankContext inner(context.runtime(), context.world(), context.messages(), setting, shown);
  program(inner);
  for (const ShownState::Piece& piece : shown.pieces()) {
    const std::optional<ShownName> as = names(dump_name_of(piece));
    if (!as) continue;
    const ShowOptions options = {.first = piece.first,
                                 .whole = piece.whole,
                                 .step = piece.step,
                                 .microbatch = piece.microbatch};
    show_values_of(context, *as, piece.values, options, piece.site);
  }
}

// --- Files -------------------------------------------------------------------------------------

struct GoldenTensor {
  ShownName name;
  std::vector<double> values;
};
using GoldenStep = std::vector<GoldenTensor>;

UsageError unreadable(const std::string& path, const std::string& why) {
  return {"E1212", "the golden file " + path + " cannot be read: " + why,
          "give a safetensors file, as --dump-state or PyTorch writes it"};
}

std::vector<double> values_in(InputFile& file, const PayloadHeader& header,
                              const PayloadEntry& entry) {
  const auto bytes = static_cast<std::size_t>(entry.end - entry.begin);
  const std::int64_t count = (entry.end - entry.begin) / size_of(entry.dtype);
  const Tensor raw =
      Tensor::allocate(nullptr, MemoryCategory::activations, {count}, entry.dtype, false);
  std::vector<std::byte> data(bytes);
  if (!read_all(file, header.data_offset + entry.begin, data)) {
    throw FormatError("the file ends in its tensors");
  }
  if (bytes > 0) std::memcpy(raw.wire_data(), data.data(), bytes);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = raw.get(i);
  return values;
}

GoldenStep read_golden(const std::string& path, const ReferenceNames& names) {
  try {
    const std::unique_ptr<InputFile> file = posix_file_system().open(path);
    const PayloadHeader header = read_payload_header(*file);
    GoldenStep step;
    for (const PayloadEntry& entry : header.entries) {
      std::optional<ShownName> as = names(entry.name);
      if (as) step.push_back({*std::move(as), values_in(*file, header, entry)});
    }
    if (step.empty()) throw FormatError("none of its tensors has a name in the program");
    return step;
  } catch (const FormatError& error) {
    throw unreadable(path, error.what());
  } catch (const FileError& error) {
    throw unreadable(path, error.what());
  }
}

}  // namespace

std::optional<ShownName> training_name(const std::string& tensor) {
  if (tensor == "loss") return ShownName{Shown::output, tensor};
  const auto rest = [&](const std::string& prefix) {
    return tensor.starts_with(prefix) ? tensor.substr(prefix.size()) : std::string();
  };
  if (const std::string name = rest("gradient."); !name.empty()) {
    return ShownName{Shown::gradient, name};
  }
  if (const std::string name = rest("parameter."); !name.empty()) {
    return ShownName{Shown::parameter, name};
  }
  if (const std::string name = rest("master."); !name.empty()) {
    return ShownName{Shown::optimizer_state, fmt::format("{} ({})", name, kMaster)};
  }
  const std::string state_and_name = rest("optimizer.");
  const std::size_t dot = state_and_name.find('.');
  if (dot == std::string::npos) return std::nullopt;
  return ShownName{Shown::optimizer_state, fmt::format("{} ({})", state_and_name.substr(dot + 1),
                                                       state_and_name.substr(0, dot))};
}

TrustedReference library_model(const TrainingStrategy& strategy, const ReferenceNames& names) {
  TrainingStrategy alone = strategy;
  alone.mesh = nullptr;
  alone.make_sync = nullptr;
  alone.make_schedule = nullptr;
  return {.words = "the library's one-device model (" + strategy.model.family + ")",
          .program = [program = training_program(alone), names](RankContext& context) {
            show_renamed(program, names, context);
          }};
}

TrustedReference golden_files(const std::vector<std::string>& paths, const ReferenceNames& names) {
  std::vector<GoldenStep> steps;
  for (const std::string& path : paths) steps.push_back(read_golden(path, names));
  std::string words = paths.empty() ? "no file" : paths.front();
  if (paths.size() > 1) words += " to " + paths.back();
  return {.words = words, .program = [steps = std::move(steps)](RankContext& context) {
            for (int step = 0; step < context.steps() && step < std::ssize(steps); ++step) {
              for (const auto& [name, values] : steps[static_cast<std::size_t>(step)]) {
                show_values_of(context, name, values, {.step = step}, CallSite::here());
              }
            }
          }};
}

}  // namespace shardsim
