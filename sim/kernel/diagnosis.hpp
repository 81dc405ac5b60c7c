#pragma once

#include <string>
#include <vector>

#include "sim/kernel/call_site.hpp"
#include "sim/kernel/error.hpp"
#include "sim/kernel/time.hpp"

// What went wrong in the communication of a run, as data: one root report per bug, never more than
// 40 lines as text, whatever the number of ranks.
namespace shardsim {

/// What a set of ranks did. Reports list the minority first: it is the likely culprit.
struct DiagnosisSide {
  std::vector<int> ranks;  ///< World ranks, ascending.
  std::string action;      ///< "all_reduce sum fp32 x 128 \"bucket 3\"", "finished", ...
  CallSite site;           ///< Of the first rank; empty file if there is none.
};

struct Diagnosis {
  std::string code;            ///< Stable: COLL_COUNT, COLL_MISSING, DEADLOCK, ...
  std::string summary;         ///< One sentence.
  std::string group;           ///< Name of the communicator, e.g. "dp_shard#3".
  std::vector<int> members;    ///< World ranks of that communicator.
  std::int64_t sequence = -1;  ///< Index of the operation in that communicator; -1 if none.
  Time time;                   ///< Virtual time at which it was found.
  std::vector<DiagnosisSide> sides;
  std::vector<std::string> cycle;  ///< Who waits for whom, one link per line.
  std::string last_matched;        ///< The last operation all members agreed on, may be empty.
  std::string hint;                ///< What to do about it.
  std::string schedule;            ///< Under which it was found, where several were tried.
  std::string replay;              ///< The token that makes the run again, may be empty.

  /// At most 40 lines.
  [[nodiscard]] std::string to_text() const;
};

/// The hint where a call is given a Tensor that was never allocated.
inline constexpr const char* kUndefinedTensorHint =
    "allocate it before the call: a default-constructed Tensor has no storage";

/// "0-3,6": ascending ranks as ranges; after `max_ranges` of them "... (N ranks)".
[[nodiscard]] std::string format_ranks(const std::vector<int>& ranks, std::size_t max_ranges = 8);

/// Ends a run: deadlock, mismatch or misuse of communication.
class CommunicationError : public Error {
 public:
  explicit CommunicationError(Diagnosis diagnosis);
  [[nodiscard]] const Diagnosis& diagnosis() const { return diagnosis_; }

 private:
  Diagnosis diagnosis_;
};

}  // namespace shardsim
