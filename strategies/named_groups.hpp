#pragma once

// The communicators that strategies make: what each is called, and the axis of the result that its
// traffic is counted to. A strategy that splits off a group takes its name from a row here, so that
// no group is without an axis.
namespace shardsim {

struct NamedGroup {
  const char* name;
  const char* axis;
};

// The last two only make the others; the world is named by the backend.
#define SHARDSIM_NAMED_GROUPS(ROW)                       \
  ROW(kDp, "dp", "dp")                                   \
  ROW(kDpShard, "dp_shard", "dp")                        \
  ROW(kDpReplicate, "dp_replicate", "dp")                \
  ROW(kDpExperts, "dp_experts", "dp")                    \
  ROW(kDpShardExperts, "dp_shard_experts", "dp")         \
  ROW(kDpReplicateExperts, "dp_replicate_experts", "dp") \
  ROW(kTp, "tp", "tp")                                   \
  ROW(kTpCopies, "tp_copies", "tp")                      \
  ROW(kTpParts, "tp_parts", "tp")                        \
  ROW(kCp, "cp", "cp")                                   \
  ROW(kCpUlysses, "cp_ulysses", "cp")                    \
  ROW(kCpRing, "cp_ring", "cp")                          \
  ROW(kEp, "ep", "ep")                                   \
  ROW(kEpAcross, "ep_across", "ep")                      \
  ROW(kEpInside, "ep_inside", "ep")                      \
  ROW(kEtp, "etp", "ep")                                 \
  ROW(kExpertParts, "expert_parts", "ep")                \
  ROW(kPp, "pp", "pp")                                   \
  ROW(kPpForward, "pp_forward", "pp")                    \
  ROW(kPpBackward, "pp_backward", "pp")                  \
  ROW(kPpUpForward, "pp_up_forward", "pp")               \
  ROW(kPpUpBackward, "pp_up_backward", "pp")             \
  ROW(kEmbedding, "embedding", "pp")                     \
  ROW(kWorld, "world", "none")                           \
  ROW(kMembers, "members", "none")

namespace named_group {
#define SHARDSIM_NAMED_GROUP(constant, name, axis) inline constexpr NamedGroup constant{name, axis};
SHARDSIM_NAMED_GROUPS(SHARDSIM_NAMED_GROUP)
#undef SHARDSIM_NAMED_GROUP
}  // namespace named_group

#define SHARDSIM_NAMED_GROUP(constant, name, axis) &named_group::constant,
inline constexpr const NamedGroup* kNamedGroups[] = {SHARDSIM_NAMED_GROUPS(SHARDSIM_NAMED_GROUP)};
#undef SHARDSIM_NAMED_GROUP

}  // namespace shardsim
