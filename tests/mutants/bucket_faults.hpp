#pragma once

#include <cstdint>

#include "tests/mutants/faulty_communicator.hpp"

// Bugs in when a bucket of gradients is touched: before its reduction may begin, or before it has
// ended. Where a kernel copies and another reduces, an event that nobody waits for makes each.
namespace shardsim::test {

/// Reductions read a bucket before the gradients are copied into it, on every rank: it is fresh
/// memory, of zeros.
[[nodiscard]] Faults read_before_first_copy();
/// The first reduction of a bucket waits for the copy; the later ones read what it held before.
[[nodiscard]] Faults read_before_next_copy();
/// A bucket is freed while its reduction is under way, and its next owner clears it.
[[nodiscard]] Faults freed_in_flight();
/// While its reduction is under way a bucket is read, and written with the values it has.
[[nodiscard]] Faults touched_in_flight();

/// The elements behind the last whole `width` of a bucket, or of a rank's shard of it, are not
/// reduced: the rank's own values stay there.
[[nodiscard]] Faults dropped_tail(std::int64_t width);

}  // namespace shardsim::test
