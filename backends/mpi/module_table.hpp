#pragma once

#include <cstdint>

// The door between shardsim and libshardsim-mpi.so: plain C types only, so that neither side needs
// the other to build and nothing of one implementation of MPI gets into the core. The module has
// one symbol, `shardsim_mpi_module`, a function that returns this table.
//
// Functions return kMpiOk or a status; `error_text` says more. Groups and requests are numbers
// that the module gives out; group 0 is all processes. All calls come from one thread.
extern "C" {

/// Statuses.
constexpr std::int32_t kMpiOk = 0;
constexpr std::int32_t kMpiOtherSize = 1;  ///< A message of another size than was asked for.
constexpr std::int32_t kMpiFailed = 2;

/// Combines `count` elements of `in` into `inout`: inout = in (op) inout.
using ShardsimMpiCombine = void (*)(const void* in, void* inout, std::int64_t count);

/// A collective of MPI's own. Counts and places are in elements; arrays have one entry per member.
struct ShardsimMpiCollective {
  enum Kind : std::int32_t {
    all_reduce,      ///< In place in `out`.
    reduce_scatter,  ///< `in` full, `out` this member's part; `counts`.
    all_gather,      ///< `in` this member's part, `out` full; `counts`.
    all_to_all,      ///< `counts` are sent, `receive_counts` received.
    broadcast,       ///< In place in `out`.
    reduce,          ///< `in` everywhere, `out` at the root.
    gather,          ///< `out` full, at the root; `counts`.
    scatter,         ///< `in` full, at the root; `counts`.
  };
  std::int32_t kind;
  std::int32_t root;
  std::int32_t element_bytes;
  std::int32_t reduction;  ///< As given to set_reduction.
  const void* in;
  void* out;
  std::int64_t count;  ///< Elements of `out` (all_reduce, broadcast) or `in` (reduce).
  const std::int64_t* counts;
  const std::int64_t* receive_counts;
};

struct ShardsimMpiTable {
  std::uint32_t version;    ///< kShardsimMpiVersion of the module.
  std::uint32_t num_bytes;  ///< sizeof(ShardsimMpiTable) there: another one is another table.

  /// Starts MPI. `monitor`: counts what is sent, if the library can. `piece_bytes`: longer messages
  /// travel in pieces of so much (counts of MPI are 32 bits wide).
  std::int32_t (*open)(std::int32_t monitor, std::int64_t piece_bytes);
  /// Ends MPI. Everyone must do it.
  void (*close)();
  /// Instead: MPI does not end well; what was made for it goes.
  void (*forget)();
  const char* (*library)();  ///< Which MPI this is, one line.
  const char* (*error_text)();

  std::int32_t (*rank)(std::int32_t group);
  std::int32_t (*size)(std::int32_t group);
  void (*world_ranks)(std::int32_t group, std::int32_t* ranks);
  std::int32_t (*split)(std::int32_t group, std::int32_t color, std::int32_t key,
                        std::int32_t* made);
  void (*free_group)(std::int32_t group);

  std::int32_t (*send)(std::int32_t group, std::int32_t peer, const void* data, std::int64_t bytes,
                       std::int32_t rendezvous, std::int64_t* request);
  std::int32_t (*receive)(std::int32_t group, std::int32_t peer, void* data, std::int64_t bytes,
                          std::int64_t* request);
  /// Messages with tags, of groups that have no others. A receive takes one of up to `bytes` bytes;
  /// `source` and `tag` may be -1: any.
  std::int32_t (*send_tagged)(std::int32_t group, std::int32_t peer, std::int32_t tag,
                              const void* data, std::int64_t bytes, std::int32_t rendezvous,
                              std::int64_t* request);
  std::int32_t (*receive_tagged)(std::int32_t group, std::int32_t source, std::int32_t tag,
                                 void* data, std::int64_t bytes, std::int64_t* request);
  /// *found is 1 if there is a message that such a receive would take; `taken` tells of it then.
  std::int32_t (*probe)(std::int32_t group, std::int32_t source, std::int32_t tag,
                        std::int32_t* found);
  /// The message of the tagged receive that `test` has last answered for.
  void (*taken)(std::int32_t* source, std::int32_t* tag, std::int64_t* bytes);
  std::int32_t (*barrier)(std::int32_t group, std::int64_t* request);
  std::int32_t (*collective)(std::int32_t group, const ShardsimMpiCollective* call,
                             std::int64_t* request);
  /// *done is 1 when it has ended; the number is free then.
  std::int32_t (*test)(std::int64_t request, std::int32_t* done);

  /// Sets the function of reduction `index` (0 to kShardsimMpiReductions - 1).
  void (*set_reduction)(std::int32_t index, ShardsimMpiCombine combine);

  /// Bytes and messages that this process has sent to each process by send(), as MPI's monitoring
  /// has counted them until close(). kMpiFailed where it does not.
  std::int32_t (*wire)(std::int64_t* bytes, std::int64_t* messages);
};

constexpr std::uint32_t kShardsimMpiVersion = 2;
constexpr std::int32_t kShardsimMpiReductions = 48;

using ShardsimMpiModule = const ShardsimMpiTable* (*)();
}
