#include "sim/harness/schedule.hpp"

#include <array>
#include <cstring>

#include <fmt/format.h>
#include <link.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"
#include "sim/kernel/text.hpp"
#include "sim/kernel/version.hpp"

namespace shardsim {

namespace {

// Version of the format: the first field.
constexpr std::string_view kFormat = "1";
constexpr std::size_t kFields = 10;
constexpr std::string_view kNone = "-";
// Long enough to tell two builds apart, short enough to paste.
constexpr std::size_t kBuildDigits = 12;
// A token is a line of text, not a file.
constexpr std::size_t kMostDecisions = 1U << 20U;

UsageError bad_token(const std::string& what) {
  return {"E1201", "the replay token " + what,
          "paste the token as the report prints it, after \"replay: \""};
}

std::uint64_t number_of(std::string_view text) {
  const auto value = parse_number<std::uint64_t>(text);
  if (!value) throw bad_token("has \"" + std::string(text) + "\" instead of a number");
  return *value;
}

// "0x12_3": twelve zeros, then a three.
std::string run_lengths(const std::vector<std::uint16_t>& decisions) {
  std::string text;
  for (std::size_t i = 0; i < decisions.size();) {
    std::size_t end = i;
    while (end < decisions.size() && decisions[end] == decisions[i]) ++end;
    if (!text.empty()) text += "_";
    text += std::to_string(decisions[i]);
    if (end - i > 1) text += "x" + std::to_string(end - i);
    i = end;
  }
  return text.empty() ? std::string(kNone) : text;
}

std::vector<std::uint16_t> decisions_of(std::string_view text) {
  std::vector<std::uint16_t> decisions;
  if (text == kNone) return decisions;
  for (const std::string_view run : split_at(text, '_')) {
    const std::vector<std::string_view> parts = split_at(run, 'x');
    const std::uint64_t value = number_of(parts.front());
    const std::uint64_t times = parts.size() == 1 ? 1 : number_of(parts[1]);
    if (parts.size() > 2 || value > UINT16_MAX || times > kMostDecisions - decisions.size()) {
      throw bad_token("has impossible decisions");
    }
    decisions.insert(decisions.end(), static_cast<std::size_t>(times),
                     static_cast<std::uint16_t>(value));
  }
  return decisions;
}

// Names may be anything; a token is one word.
std::string word_of(const std::string& name) {
  std::string word;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    word += plain ? c : '-';
  }
  return word.empty() ? std::string(kNone) : word;
}

// Names and contents of notes are padded to words.
std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

// The note that the linker leaves in a program.
int find_build_id(dl_phdr_info* info, std::size_t, void* found) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses are numbers in an ELF header.
    const auto* note = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    const char* const end = note + header.p_memsz;
    while (note + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) head;
      std::memcpy(&head, note, sizeof head);
      const char* const name = note + sizeof head;
      const char* const id = name + padded(head.n_namesz);
      if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
          std::memcmp(name, "GNU", 4) == 0) {
        std::string& text = *static_cast<std::string*>(found);
        for (std::size_t byte = 0; byte < head.n_descsz; ++byte) {
          text += fmt::format("{:02x}", static_cast<unsigned char>(id[byte]));
        }
        return 1;
      }
      note = id + padded(head.n_descsz);
    }
  }
  return 1;  // The program itself comes first; libraries do not count.
}

}  // namespace

std::string token_checksum(std::string_view text) {
  return fmt::format("{:04x}", hash_text(text) & 0xFFFFU);
}

const char* name_of(SendMode mode) {
  static constexpr std::array<const char*, 3> kNames = {"rendezvous", "buffered", "drawn"};
  return kNames.at(static_cast<std::size_t>(mode));
}

std::string build_id() {
  std::string id;
  dl_iterate_phdr(find_build_id, &id);
  return id.empty() ? std::string(version()) : id.substr(0, kBuildDigits);
}

std::string to_text(const ReplayToken& token) {
  const std::string text = fmt::format(
      "{}.{}.{}.{}.{}.{}.{}.{}.{}.{}", kFormat, word_of(build_id()), word_of(token.name),
      token.ranks, token.steps, token.seed, static_cast<int>(token.schedule.sends),
      token.schedule.seed, run_lengths(token.schedule.decisions),
      token.layout < 0 ? std::string(kNone) : std::to_string(token.layout));
  return text + "." + token_checksum(text);
}

ReplayToken parse_token(const std::string& text, bool force) {
  const std::size_t last = text.rfind('.');
  const std::vector<std::string_view> fields =
      split_at(std::string_view(text).substr(0, last), '.');
  if (last == std::string::npos || fields.size() != kFields || fields[0] != kFormat) {
    throw bad_token("is none of this version");
  }
  if (token_checksum(std::string_view(text).substr(0, last)) != text.substr(last + 1)) {
    throw bad_token("is damaged: its checksum does not fit");
  }
  if (fields[1] != word_of(build_id()) && !force) {
    throw UsageError("E1202",
                     "the replay token is of build " + std::string(fields[1]) + ", this is build " +
                         word_of(build_id()),
                     "replay with the program that printed it, or force it (--replay-force, "
                     "CheckOptions::replay_force); the schedule may then differ");
  }
  ReplayToken token;
  token.name = fields[2];
  const std::uint64_t ranks = number_of(fields[3]);
  const std::uint64_t steps = number_of(fields[4]);
  const std::uint64_t sends = number_of(fields[6]);
  if (ranks < 1 || ranks > INT32_MAX || steps > INT32_MAX ||
      sends > static_cast<std::uint64_t>(SendMode::drawn)) {
    throw bad_token("has impossible numbers");
  }
  token.ranks = static_cast<int>(ranks);
  token.steps = static_cast<int>(steps);
  token.seed = number_of(fields[5]);
  token.schedule.sends = static_cast<SendMode>(sends);
  token.schedule.seed = number_of(fields[7]);
  token.schedule.decisions = decisions_of(fields[8]);
  const std::uint64_t layout = fields[9] == kNone ? 0 : number_of(fields[9]);
  if (layout > INT32_MAX) throw bad_token("has an impossible layout");
  token.layout = fields[9] == kNone ? -1 : static_cast<int>(layout);
  return token;
}

}  // namespace shardsim
