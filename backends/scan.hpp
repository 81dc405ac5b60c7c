#pragma once

#include "backends/communicator.hpp"
#include "backends/runtime.hpp"

// Prefix reductions over the members of a communicator, made of messages: NCCL has none, and on no
// backend are they priced otherwise. In ceil(log2 n) rounds each member sends its partial result to
// the member 1, 2, 4, ... behind it. Source: Hillis and Steele, "Data parallel algorithms"
// (Communications of the ACM, 1986).
namespace shardsim {

/// `buffer` becomes the reduction of the members' buffers from the first to this one (MPI_Scan). In
/// place; every member makes the call, with as many elements. Throws UsageError (E0513) for
/// ReduceOp::avg, which has no prefix.
void inclusive_scan(Communicator& group, Runtime& runtime, const Tensor& buffer, ReduceOp op,
                    const CallOptions& options = {}, CallSite site = CallSite::here());

/// The same without this member's own; the first member's buffer keeps its values (MPI_Exscan).
void exclusive_scan(Communicator& group, Runtime& runtime, const Tensor& buffer, ReduceOp op,
                    const CallOptions& options = {}, CallSite site = CallSite::here());

}  // namespace shardsim
