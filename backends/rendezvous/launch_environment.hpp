#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

// Which rank this process is, and what lets it meet the others, as its launcher says in environment
// variables.
namespace shardsim {

/// The value of an environment variable, or nothing. The real one: `lookup_environment`.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

[[nodiscard]] std::optional<std::string> lookup_environment(const std::string& name);

struct LaunchedRank {
  int rank = 0;
  int world_size = 1;
  std::optional<int> local_rank;  ///< Among the ranks of this machine; unknown with some launchers.
  std::optional<int> local_size;
  std::string source;  ///< "shardsim", "torchrun", "openmpi", "slurm" or "pmi".
  std::string job;     ///< As the launcher calls it; may be empty.
  /// Address of the rendezvous, as far as the launcher says.
  std::optional<std::string> master_address;
  std::optional<int> master_port;
};

/// Nothing: no launcher has started this process. The innermost launcher decides: shardsim's own
/// variables, then torchrun's, Open MPI's, Slurm's, PMI's. (Open MPI's stand before Slurm's since
/// mpirun inside a batch script leaves the script's own SLURM_PROCID in every rank.) A batch script
/// itself is no rank: Slurm's variables count only in a step of srun (SLURM_STEP_ID).
///
/// The place of the rendezvous is SHARDSIM_RENDEZVOUS ("HOST:PORT") whatever the launcher; else
/// MASTER_ADDR with SHARDSIM_PORT, or with MASTER_PORT + 1, since torchrun's agent listens on
/// MASTER_PORT itself; else the first node of a Slurm job with SHARDSIM_PORT, or with a port made
/// from the job's number.
///
/// Throws Error E1000 which names the variable that is malformed, missing or contradicts another.
[[nodiscard]] std::optional<LaunchedRank> find_launched_rank(
    const EnvironmentLookup& lookup = lookup_environment);

/// "HOST:PORT" in two; an IPv6 address stands in brackets. Nothing if it is not in that form.
struct HostAndPort {
  std::string host;
  int port = 0;
};
[[nodiscard]] std::optional<HostAndPort> parse_host_and_port(const std::string& text);

// The two list notations in which Slurm tells a job about its machines. Both functions return
// nothing where the text is not in that notation.

/// "gpu003" of "gpu[003-006,9],login1".
[[nodiscard]] std::optional<std::string> first_slurm_node(const std::string& list);

/// Entry `node` of SLURM_TASKS_PER_NODE: 3 for node 2 of "4(x2),3".
[[nodiscard]] std::optional<int> slurm_tasks_on_node(const std::string& list, int node);

// --- The secret that every connection to a rendezvous starts with ------------------------------

/// 128 random bits of the operating system, as 32 hexadecimal digits. Throws Error E1002 if it has
/// none to give.
[[nodiscard]] std::string make_token();

/// The first line of the file SHARDSIM_TOKEN_FILE, or SHARDSIM_TOKEN; nothing if neither is set.
/// Throws Error E1003 if the file cannot be read, belongs to neither this user nor root, or gives
/// others any permission. Throws it, too, if the token has fewer than 16 or more than 256
/// characters. Reads at most a little more than 256 characters.
[[nodiscard]] std::optional<std::string> find_token(
    const EnvironmentLookup& lookup = lookup_environment);

/// In a time that depends on the lengths only.
[[nodiscard]] bool same_token(std::string_view a, std::string_view b);

}  // namespace shardsim
