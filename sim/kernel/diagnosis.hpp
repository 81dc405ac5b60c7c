#pragma once

#include <string>
#include <vector>

#include "sim/kernel/call_site.hpp"
#include "sim/kernel/error.hpp"
#include "sim/kernel/time.hpp"

// A failure of the communication of a run, as data. One root report per bug, with at most 40 lines
// of text for any number of ranks.
namespace shardsim {

/// The action of a set of ranks. Reports list the minority first: it is the likely culprit.
struct DiagnosisSide {
  std::vector<int> ranks;  ///< World ranks, ascending.
  std::string action;      ///< "all_reduce sum fp32 x 128 \"bucket 3\"", "finished", ...
  CallSite site;           ///< Call of the first rank; empty file if there is none.
};

struct Diagnosis {
  std::string code;            ///< Stable: COLL_COUNT, COLL_MISSING, DEADLOCK, ...
  std::string summary;         ///< One sentence.
  std::string group;           ///< Name of the communicator, e.g. "dp_shard#3".
  std::vector<int> members;    ///< World ranks of that communicator.
  std::int64_t sequence = -1;  ///< Index of the operation in that communicator; -1 if none.
  Time time;                   ///< Virtual time at which it was found.
  std::vector<DiagnosisSide> sides;
  std::vector<std::string> cycle;  ///< The ranks that wait for each other, one link per line.
  std::string last_matched;        ///< The last operation all members agreed on, may be empty.
  std::string right;               ///< Numbers that differ: the right ones beside them.
  std::string compared_with;       ///< Numbers that differ: their reference, in words.
  std::string hint;                ///< The way out.
  std::string schedule;            ///< Schedule of the failure, where several were tried.
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
