#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "scenarios/formats/megatron_arguments.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

constexpr std::string_view kRuler = "--- arguments ---";
constexpr std::string_view kEnd = "--- end of arguments ---";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

// "0:   hidden_size ..................................... 6144": after any prefix of a launcher,
// the name is the last word before the dots. GPT-NeoX puts dots and "default" after the value, too.
void add_line(const SourceText& source, std::size_t offset, std::size_t length,
              MegatronArguments& arguments) {
  const std::string_view line = std::string_view(source.text).substr(offset, length);
  const std::size_t dots = line.find(" ..");
  if (dots == std::string_view::npos) return;
  const std::string_view before = trimmed(line.substr(0, dots));
  const std::size_t space = before.find_last_of(" \t]");
  const std::string name(space == std::string_view::npos ? before : before.substr(space + 1));
  const std::size_t after = line.find_first_not_of('.', dots + 1);
  std::string_view value = after == std::string_view::npos ? "" : trimmed(line.substr(after));
  const std::size_t tail = value.find("....");
  if (tail != std::string_view::npos) value = value.substr(0, tail);
  if (name.empty()) return;
  const std::size_t at =
      value.empty() ? offset : static_cast<std::size_t>(value.data() - source.text.data());
  arguments.add(name, {std::string(value), at, std::max<std::size_t>(value.size(), 1)});
}

double number_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return -1.0;
  return std::strtod(std::string(line.substr(at + words.size())).c_str(), nullptr);
}

void read_line(std::string_view line, MegatronRun& run) {
  const double step = number_after(line, "elapsed time per iteration (ms):");
  if (step > 0.0) run.step_ms.push_back(step);
  const double tflops = number_after(line, "throughput per GPU (TFLOP/s/GPU):");
  if (tflops > 0.0) run.tflops.push_back(tflops);
  if (line.find("padded vocab (size:") != std::string_view::npos) {
    run.padded_vocab = static_cast<std::int64_t>(number_after(line, "(new size:"));
  }
  const double parameters = number_after(line, "model parallel rank (0, 0):");
  if (parameters > 0.0) run.rank_parameters = static_cast<std::int64_t>(parameters);
}

}  // namespace

MegatronArguments read_megatron_arguments(const SourceText& source) {
  const std::size_t begin = source.text.rfind(kRuler);
  if (begin == std::string::npos) {
    MegatronArguments flags(source, false);
    read_megatron_flags(source, flags);
    if (!flags.empty()) return flags;
    throw_problem(
        "E1360", {&source, 0, 0},
        source.name + " has neither the block \"arguments\" of a Megatron-LM log nor flags",
        "import the log from its first line on, or the script that starts the run");
  }
  MegatronArguments arguments(source, true);
  const std::size_t end = std::min(source.text.find(kEnd, begin), source.text.size());
  for (std::size_t at = source.text.find('\n', begin); at < end;) {
    const std::size_t next = std::min(source.text.find('\n', at + 1), end);
    add_line(source, at + 1, next - std::min(at + 1, next), arguments);
    at = next;
  }
  return arguments;
}

MegatronRun read_megatron_run(const std::string& text) {
  MegatronRun run;
  const std::size_t begin = text.rfind(kRuler);
  if (begin == std::string::npos) return run;
  for (std::size_t at = begin; at < text.size();) {
    const std::size_t next = std::min(text.find('\n', at), text.size());
    read_line(std::string_view(text).substr(at, next - at), run);
    at = next + 1;
  }
  return run;
}

}  // namespace shardsim
