#pragma once

#include "tests/harness_drawn/plant.hpp"

// The rule of what is neutral, written before the first run: a change that leaves a correct
// program.
namespace shardsim::drawn {

/// A planted change is neutral in these cases, and in no other:
///
/// 1. Nobody shares the call. A collective, a split or a batch of a group of one rank may be of any
///    kind, size and place, may be missing or doubled, and may move to another group of one. (Not
///    so its buffers, which are in flight all the same; nor one half of a batch, which must fit the
///    other.)
/// 2. Two calls change places that are equal: members compare kind, op, dtype, root, elements,
///    label and traffic class; the ends of a message dtype, elements, label and traffic class.
/// 3. An element is overwritten by its own value.
/// 4. A buffer that a call only reads is read once more.
/// 5. A tagged receive gets a larger buffer: it may be larger than the message.
/// 6. The tag of a message changes that a receive of any tag takes.
/// 7. The label of a tagged message changes while one of its ends has none.
[[nodiscard]] bool is_neutral(const ProgramPlan& plan, const Plant& plant);

}  // namespace shardsim::drawn
