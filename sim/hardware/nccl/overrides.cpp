#include "sim/hardware/nccl/overrides.hpp"

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

namespace shardsim {

namespace {

constexpr std::string_view kFunctionNames[] = {"AllReduce", "ReduceScatter", "AllGather",
                                               "Broadcast", "Reduce"};
constexpr CollectiveKind kFunctionKinds[] = {collective::kAllReduce, collective::kReduceScatter,
                                             collective::kAllGather, collective::kBroadcast,
                                             collective::kReduce};
static_assert(std::size(kFunctionNames) == NcclSelection::kFunctions);
static_assert(std::size(kFunctionKinds) == NcclSelection::kFunctions);

// In the order of NcclAlgorithm; then those that NCCL has and this model has not.
constexpr std::string_view kAlgorithmNames[] = {"Tree", "Ring",          "NVLS",         "NVLSTree",
                                                "PAT",  "CollNetDirect", "CollNetChain", "CollNet"};
constexpr std::string_view kProtocolNames[] = {"LL", "LL128", "Simple"};

// One of the two lists, and how it is called in messages.
struct List {
  const char* field;
  const char* what;
  std::span<const std::string_view> names;
  int num_modelled;
};

bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char left, char right) {
    return std::tolower(static_cast<unsigned char>(left)) ==
           std::tolower(static_cast<unsigned char>(right));
  });
}

// The place of `name` in `names`, or their number.
int place_of(std::string_view name, std::span<const std::string_view> names) {
  return static_cast<int>(
      std::ranges::find_if(names, [name](std::string_view each) { return same(each, name); }) -
      names.begin());
}

std::string joined(std::span<const std::string_view> names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// A word of an untrusted file, for a terminal.
std::string shown(std::string_view word) {
  constexpr std::size_t kMost = 40;
  std::string text(word.substr(0, kMost));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return word.size() > kMost ? text + "..." : text;
}

[[noreturn]] void refuse(const List& list, const std::string& cause, const std::string& fix) {
  throw UsageError("E0406", fmt::format("{}: {}", list.field, cause), fix);
}

// "ring,tree" or "^nvls", as bits.
std::uint32_t names_of(const List& list, std::string_view text) {
  const bool leaves_out = !text.empty() && text.front() == '^';
  if (leaves_out) text.remove_prefix(1);
  std::uint32_t named = 0;
  for (const std::string_view name : split_at(text, ',')) {
    const int place = place_of(name, list.names);
    const auto known = list.names.first(static_cast<std::size_t>(list.num_modelled));
    if (name.empty() || place == static_cast<int>(list.names.size())) {
      refuse(list, fmt::format("there is no {} \"{}\"", list.what, shown(name)),
             fmt::format("write NCCL's names with commas between them and no spaces: {}; ^ before "
                         "the first leaves them out",
                         joined(known)));
    }
    if (place >= list.num_modelled && !leaves_out) {
      refuse(list, fmt::format("{} is SHARP in the network, which this model does not have", name),
             fmt::format("leave it out of the list; there are {}", joined(known)));
    }
    named |= std::uint32_t{1} << static_cast<unsigned>(place);
  }
  return leaves_out ? ~named : named;
}

NcclSelection::Allowed allowed_by(const List& list, std::string_view text) {
  NcclSelection::Allowed allowed;
  allowed.fill(~std::uint32_t{0});
  if (text.empty()) return allowed;
  bool first = true;
  for (std::string_view part : split_at(text, ';')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos) {
      if (!first) {
        refuse(
            list, fmt::format("\"{}\" names no function", shown(part)),
            "only the first list may be without one; write for example allreduce:" + shown(part));
      }
      allowed.fill(names_of(list, part));
    } else {
      const int function = place_of(part.substr(0, colon), kFunctionNames);
      if (function == NcclSelection::kFunctions) {
        refuse(list, fmt::format("there is no function \"{}\"", shown(part.substr(0, colon))),
               "NCCL's functions are " + joined(kFunctionNames));
      }
      allowed[static_cast<std::size_t>(function)] = names_of(list, part.substr(colon + 1));
    }
    first = false;
  }
  return allowed;
}

bool has(std::uint32_t names, int place) {
  return (names >> static_cast<unsigned>(place) & 1U) != 0;
}

}  // namespace

NcclSelection::NcclSelection(const std::string& algorithms, const std::string& protocols)
    : algorithms_(algorithms),
      protocols_(protocols),
      allowed_algorithms_(allowed_by(
          {"system.nccl.algorithms", "algorithm", kAlgorithmNames, kNcclAlgorithms}, algorithms)),
      allowed_protocols_(allowed_by(
          {"system.nccl.protocols", "protocol", kProtocolNames, kNcclProtocols}, protocols)) {}

const char* NcclSelection::why_left_out(CollectiveKind kind, NcclAlgorithm algorithm,
                                        NcclProtocol protocol) const {
  // A kind without a function counts as the last.
  const auto* const found =
      std::find(std::begin(kFunctionKinds), std::end(kFunctionKinds) - 1, kind);
  const auto function = static_cast<std::size_t>(found - std::begin(kFunctionKinds));
  if (!has(allowed_algorithms_[function], at(algorithm))) {
    return "system.nccl.algorithms leaves it out";
  }
  if (!has(allowed_protocols_[function], at(protocol))) {
    return "system.nccl.protocols leaves it out";
  }
  return nullptr;
}

}  // namespace shardsim
