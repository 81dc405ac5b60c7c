#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/kernel/device_streams.hpp"
#include "sim/kernel/rank_state.hpp"

#include "sim/hardware/kernels/kernel_seconds.hpp"

#include "backends/program/program_tables.hpp"
#include "backends/replay/replay_code.hpp"
#include "backends/replay/replay_operation.hpp"

// Ranks that have one program and one speed go through it together: each step is looked at once,
// and done for each of them with its own clock. They wait for each other nowhere in virtual time.
namespace shardsim {

/// The operations that members of a gang have posted by one step.
struct GangWork {
  std::vector<ReplayOperation*> operations;  ///< By the stream's group, or by member of the gang.
  bool by_member = false;
  std::size_t stream = 0;
};

/// The members' streams of the groups that their program gives one number.
struct GangStream {
  /// A group that members of the gang are in.
  struct Part {
    ReplayGroup* group = nullptr;
    int num_members = 0;  ///< Those in the gang.
  };
  /// A member's stream.
  struct Stream {
    std::uint32_t part = 0;  ///< Its group.
    int place = 0;           ///< In the group.
    Time free;
  };
  std::vector<Part> parts;
  std::vector<Stream> streams;     ///< By member of the gang.
  const GangWork* last = nullptr;  ///< The last work, while it may be unresolved.
  std::int64_t next_sequence = 0;  ///< The number of the next collective.
  int track = -1;                  ///< In the only member's trace; -1: not traced.

  [[nodiscard]] ReplayGroup& group_of(std::size_t member) const {
    return *parts[streams[member].part].group;
  }
  [[nodiscard]] ReplayOperation& operation(const GangWork& work, std::size_t member) const {
    return *work.operations[work.by_member ? member : streams[member].part];
  }
};

/// A rank that nobody watches, as far as replay moves it: close together in memory.
struct GangMember {
  RankClock clock;
  RankHash hash;
  std::int64_t busy = 0;  ///< Not yet added to the world's (World::add_busy).
};

/// A rank that a member represents in all but its hash, which has its places in groups.
struct Represented {
  int rank = 0;
  HashBeside hash = {};          ///< Beside the member's.
  std::vector<int> places = {};  ///< By the program's group; -1: none.
};

struct ReplayGang {
  ReplayGang(const RankProgram& program, const std::vector<Price>& prices);
  /// Many more would not stay in the processor's nearest cache.
  static constexpr std::size_t kEnoughMembers = 112;

  std::size_t number = 0;  ///< Its place among all.
  const RankProgram& program;
  const std::vector<Price>& prices;    ///< By row of operations, at the ranks' speed.
  std::vector<RankState*> ranks;       ///< By member, in ascending order.
  std::vector<GangMember> members;     ///< With the code; else a rank's state is its own.
  std::vector<DeviceStreams> devices;  ///< By member, or empty: the program has one stream.
  /// By member, or empty: nobody asks for hashes of ranks that do not run.
  std::vector<std::vector<Represented>> represented;
  /// For ranks whose memory and trace nobody watches. Null: there is one rank, and all its steps
  /// are done one by one.
  const ReplayCode* code = nullptr;
  const ProgramDigest* digest = nullptr;  ///< With the code.
  std::size_t num_waits = 0;
  std::size_t next_step = 0;
  std::vector<GangStream> streams;         ///< By the program's group.
  std::vector<GangWork> works;             ///< By slot, as the next two.
  std::vector<std::uint32_t> allocations;  ///< Rows.
  std::vector<AllocationMark> marks;
  const GangWork* follows = nullptr;  ///< The next call comes behind it.
  GangWork splits;                    ///< The split that it forms groups by.
  bool is_splitting = false;
  int num_awaited = 0;  ///< Operations that it waits for.

  /// Where a member's time is wanted.
  struct Question {
    std::size_t step = 0;  ///< The code's: before it.
    std::size_t member = 0;
    Time* answer = nullptr;
  };
  std::vector<Question> questions;  ///< The next one last.

  [[nodiscard]] std::size_t size() const { return ranks.size(); }
  [[nodiscard]] RankClock& clock(std::size_t member) {
    return members.empty() ? ranks[member]->clock() : members[member].clock;
  }
  [[nodiscard]] RankHash& hash(std::size_t member) {
    return members.empty() ? ranks[member]->hash() : members[member].hash;
  }
  [[nodiscard]] const std::vector<ProgramStep>& steps() const {
    return code == nullptr ? program.steps : code->steps;
  }
  [[nodiscard]] bool ended() const { return next_step == steps().size(); }
};

}  // namespace shardsim
