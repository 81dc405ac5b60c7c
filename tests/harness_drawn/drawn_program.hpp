#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

// Correct programs as values: they can be run, printed and made smaller.
namespace shardsim::drawn {

/// One thing that all ranks, or all members of a group, do. Each number is taken modulo what there
/// is: a program from which statements were left out is a correct program, too.
struct Statement {
  enum class Kind : std::uint8_t {
    split,       ///< Makes groups, by one of six cuts.
    collective,  ///< All kinds but split.
    message,     ///< send and recv of a communicator.
    exchange,    ///< Two messages in each direction of a ring, in one batch per member.
    tagged,      ///< A message with a tag; every third receive takes any tag.
    gather_any,  ///< One rank takes a message of each other, in any order.
  };
  Kind kind = Kind::collective;
  int group = 0;          ///< 0: the world; else one of the splits before.
  int form = 0;           ///< The cut of a split, the kind of a collective, whether a tag is named.
  int count = 0;          ///< Elements of a chunk.
  int dtype = 0;          ///< One of five.
  int op = 0;             ///< The reduce op.
  int root = 0;           ///< Or the sender of a message.
  int offset = 0;         ///< From a sender to its receiver, less one.
  int label = 0;          ///< 0: none.
  bool uneven = false;    ///< Chunks of different sizes.
  bool in_place = false;  ///< Where a chunk may lie in the full buffer.
  bool scalar = false;    ///< CallOptions::traffic.
  bool after = false;     ///< CallOptions::after the work before, where there is one.
  bool reuse = false;     ///< Buffers of calls that have ended, or that come before on the stream.
  int delay = 0;          ///< Each rank waits up to so many statements later, as drawn by `waits`.
  int waits = 0;

  friend bool operator==(const Statement&, const Statement&) = default;
};

struct DrawnProgram {
  int ranks = 2;
  std::vector<Statement> statements;

  [[nodiscard]] bool has_open_receives() const;
  friend bool operator==(const DrawnProgram&, const DrawnProgram&) = default;
};

/// One line per statement.
[[nodiscard]] std::string to_text(const DrawnProgram& program);
std::ostream& operator<<(std::ostream& out, const DrawnProgram& program);

}  // namespace shardsim::drawn
