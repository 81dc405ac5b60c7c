#include "backends/rendezvous/launch_environment.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/kernel/descriptor.hpp"
#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "backends/hex.hpp"

namespace shardsim {

namespace {

// Far above any run on real processes.
constexpr int kMostRanks = 1 << 20;
constexpr int kLastPort = 65535;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ExitCode::bad_usage, "E1000", message,
              "let the launcher set it, or unset it to start without a launcher");
}

[[noreturn]] void refuse_value(const std::string& name, const std::string& value,
                               const std::string& why) {
  refuse("environment variable " + name + " is \"" + value.substr(0, 64) + "\", " + why);
}

// Reads variables; those that are there must be well-formed.
class Variables {
 public:
  explicit Variables(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> text(const std::string& name) const { return lookup_(name); }

  std::optional<int> number(const std::string& name, int least, int most) const {
    const std::optional<std::string> text = lookup_(name);
    if (!text) return std::nullopt;
    const std::optional<int> value = parse_number<int>(*text);
    if (value && *value >= least && *value <= most) return value;
    refuse_value(
        name, *text,
        "not a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }

 private:
  const EnvironmentLookup& lookup_;
};

struct LauncherNames {
  const char* source;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
  const char* job;
};

constexpr LauncherNames kLaunchers[] = {
    {"shardsim", "SHARDSIM_RANK", "SHARDSIM_WORLD_SIZE", "SHARDSIM_LOCAL_RANK",
     "SHARDSIM_LOCAL_SIZE", "SHARDSIM_JOB"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, "SLURM_JOB_ID"},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
};

// In a batch script Slurm sets SLURM_PROCID and SLURM_NTASKS, too: what srun has started runs in a
// step with a number of its own. Slurm keeps the numbers above this one to itself (slurm.h:
// SLURM_MAX_NORMAL_STEP_ID), and for a batch script (0xfffffffb) or an interactive step
// (0xfffffffa) it sets no SLURM_STEP_ID, since it prints only what is no negative int.
constexpr std::uint32_t kLastSlurmStep = 0xfffffff0;

bool is_in_slurm_step(const Variables& variables) {
  const std::optional<std::string> text = variables.text("SLURM_STEP_ID");
  const auto step = text ? parse_number<std::uint32_t>(*text) : std::nullopt;
  return step && *step <= kLastSlurmStep;
}

// A pair that belongs together: a launcher sets both or neither.
bool is_there(const Variables& variables, const LauncherNames& names) {
  const bool rank = variables.text(names.rank).has_value();
  const bool size = variables.text(names.world_size).has_value();
  // RANK alone, or WORLD_SIZE alone, is a name that others use, too. SLURM_NTASKS alone stands in
  // an allocation where srun has not started this process.
  const std::string_view source = names.source;
  if (rank != size && source == "shardsim") {
    refuse(std::string("environment variable ") + (rank ? names.rank : names.world_size) +
           " is set, but " + (rank ? names.world_size : names.rank) + " is not");
  }
  if (source == "slurm" && !is_in_slurm_step(variables)) return false;
  return rank && size;
}

void check(const LaunchedRank& launched, const LauncherNames& names) {
  const char* const size_name =
      names.local_size != nullptr ? names.local_size : "SLURM_TASKS_PER_NODE";
  const auto beyond = [](const char* index, int value, const char* size, int limit) {
    refuse(std::string("environment variable ") + index + " is " + std::to_string(value) +
           ", but there are " + std::to_string(limit) + " ranks according to " + size);
  };
  if (launched.rank >= launched.world_size) {
    beyond(names.rank, launched.rank, names.world_size, launched.world_size);
  }
  if (launched.local_size && *launched.local_size > launched.world_size) {
    refuse(std::string("environment variable ") + size_name + " says " +
           std::to_string(*launched.local_size) + " ranks on this machine, but " +
           names.world_size + " only " + std::to_string(launched.world_size) + " in all");
  }
  if (launched.local_rank && *launched.local_rank >= launched.local_size.value_or(kMostRanks)) {
    beyond(names.local_rank, *launched.local_rank, size_name, *launched.local_size);
  }
}

void read_slurm(const Variables& variables, LaunchedRank& launched) {
  const std::optional<int> node = variables.number("SLURM_NODEID", 0, kMostRanks);
  const std::optional<std::string> tasks = variables.text("SLURM_TASKS_PER_NODE");
  if (node && tasks) {
    launched.local_size = slurm_tasks_on_node(*tasks, *node);
    if (!launched.local_size) {
      refuse_value("SLURM_TASKS_PER_NODE", *tasks,
                   "which has no entry for node " + std::to_string(*node));
    }
  }
  const std::optional<std::string> nodes = variables.text("SLURM_JOB_NODELIST");
  if (!nodes) return;
  launched.master_address = first_slurm_node(*nodes);
  if (!launched.master_address) {
    refuse_value("SLURM_JOB_NODELIST", *nodes, "which is not a list of machines");
  }
  // Below the ephemeral ports, and another one for each job that may share a machine.
  const std::optional<int> job = variables.number("SLURM_JOB_ID", 0, 2147483647);
  if (job) launched.master_port = 20000 + *job % 10000;
}

void read_place(const Variables& variables, LaunchedRank& launched) {
  const std::optional<int> port = variables.number("SHARDSIM_PORT", 1, kLastPort);
  if (const std::optional<std::string> place = variables.text("SHARDSIM_RENDEZVOUS")) {
    const std::optional<HostAndPort> parsed = parse_host_and_port(*place);
    if (!parsed) refuse_value("SHARDSIM_RENDEZVOUS", *place, "not HOST:PORT");
    launched.master_address = parsed->host;
    launched.master_port = parsed->port;
    return;
  }
  if (const std::optional<std::string> address = variables.text("MASTER_ADDR")) {
    if (address->empty()) refuse("environment variable MASTER_ADDR is empty");
    launched.master_address = *address;
    const std::optional<int> master = variables.number("MASTER_PORT", 1, kLastPort - 1);
    if (master) launched.master_port = *master + 1;
  }
  if (port) launched.master_port = port;
}

// Takes the digits at the start of `rest`.
std::optional<int> take_number(std::string_view& rest) {
  int value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

bool take(std::string_view& rest, std::string_view prefix) {
  if (rest.substr(0, prefix.size()) != prefix) return false;
  rest.remove_prefix(prefix.size());
  return true;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  });
}

// --- The secret --------------------------------------------------------------------------------

constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kLongestToken = 256;

void check_token_length(const std::string& token, const std::string& source) {
  if (token.size() >= kShortestToken && token.size() <= kLongestToken) return;
  const std::string size = token.size() > kLongestToken ? "over " + std::to_string(kLongestToken)
                                                        : std::to_string(token.size());
  throw Error(ExitCode::bad_usage, "E1003",
              source + " gives a token of " + size + " characters; it must have " +
                  std::to_string(kShortestToken) + " to " + std::to_string(kLongestToken),
              "make one with: head -c 16 /dev/urandom | od -An -tx1 | tr -d ' '");
}

[[noreturn]] void refuse_file(const std::string& path, const std::string& why,
                              const std::string& fix) {
  throw Error(ExitCode::bad_usage, "E1003", "SHARDSIM_TOKEN_FILE names " + path + ", " + why, fix);
}

// A reader of the secret can join the run, and a writer can replace it.
void require_private(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    refuse_file(path, "which is not a regular file", "write the token into a file");
  }
  constexpr mode_t kOfOthers = 077;
  if ((status.st_mode & kOfOthers) != 0) {
    refuse_file(path, "which others may read or write", "keep it to yourself: chmod 600 " + path);
  }
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    refuse_file(path, "which belongs to another user", "make a file of your own");
  }
}

// Reads a little more than the longest token, so that a longer one is noticed.
std::string first_line_in(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0) {
    refuse_file(path, std::string("which cannot be read: ") + std::strerror(errno),
                "write the token into that file, readable for you alone");
  }
  require_private(path, status);
  std::string text(kLongestToken + 64, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.number(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::optional<std::string> lookup_environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::optional<LaunchedRank> find_launched_rank(const EnvironmentLookup& lookup) {
  const Variables variables(lookup);
  for (const LauncherNames& names : kLaunchers) {
    if (!is_there(variables, names)) continue;
    LaunchedRank launched;
    launched.source = names.source;
    launched.rank = *variables.number(names.rank, 0, kMostRanks - 1);
    launched.world_size = *variables.number(names.world_size, 1, kMostRanks);
    launched.local_rank = variables.number(names.local_rank, 0, kMostRanks - 1);
    if (names.local_size != nullptr) {
      launched.local_size = variables.number(names.local_size, 1, kMostRanks);
    }
    launched.job = variables.text(names.job).value_or("");
    if (launched.source == "slurm") read_slurm(variables, launched);
    read_place(variables, launched);
    check(launched, names);
    return launched;
  }
  return std::nullopt;
}

std::optional<HostAndPort> parse_host_and_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  HostAndPort parsed;
  parsed.host = text.substr(0, colon);
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  } else if (parsed.host.find(':') != std::string::npos) {
    return std::nullopt;
  }
  parsed.port = parse_number<int>(std::string_view(text).substr(colon + 1)).value_or(0);
  if (parsed.port < 1 || parsed.port > kLastPort || parsed.host.empty()) return std::nullopt;
  return parsed;
}

std::optional<std::string> first_slurm_node(const std::string& list) {
  // Names may have several bracketed parts: "rack[1-2]node[03-04]". The first of each is the first.
  std::string name;
  std::string_view rest = list;
  while (!rest.empty() && rest.front() != ',') {
    if (!take(rest, "[")) {
      name += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view ranges = rest.substr(0, close);
    const std::string_view first = ranges.substr(0, ranges.find_first_of("-,"));
    const bool well_formed = ranges.find_first_not_of("0123456789-,") == std::string_view::npos;
    if (first.empty() || !well_formed) return std::nullopt;
    name += first;
    rest.remove_prefix(close + 1);
  }
  if (!is_name(name)) return std::nullopt;
  return name;
}

std::optional<int> slurm_tasks_on_node(const std::string& list, int node) {
  std::string_view rest = list;
  while (true) {
    const std::optional<int> tasks = take_number(rest);
    if (!tasks) return std::nullopt;
    int repeated = 1;
    if (take(rest, "(x")) {
      const std::optional<int> times = take_number(rest);
      if (!times || *times == 0 || !take(rest, ")")) return std::nullopt;
      repeated = *times;
    }
    if (node < repeated) return tasks;
    node -= repeated;
    if (!take(rest, ",")) return std::nullopt;
  }
}

std::string make_token() {
  std::string bytes(16, '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Error(ExitCode::backend_failed, "E1002",
                  "the operating system gives no random numbers for the token of the rendezvous",
                  "set SHARDSIM_TOKEN to a secret of your own");
    }
    filled += static_cast<std::size_t>(got);
  }
  return to_hex(bytes);
}

std::optional<std::string> find_token(const EnvironmentLookup& lookup) {
  if (const std::optional<std::string> path = lookup("SHARDSIM_TOKEN_FILE")) {
    std::string token = first_line_in(*path);
    while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
    check_token_length(token, "the first line of " + *path);
    return token;
  }
  std::optional<std::string> token = lookup("SHARDSIM_TOKEN");
  if (token) check_token_length(*token, "SHARDSIM_TOKEN");
  return token;
}

bool same_token(std::string_view a, std::string_view b) {
  // Every character is looked at, so that the time does not tell how many were right.
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = i < b.size() ? b[i] : '\0';
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

}  // namespace shardsim
