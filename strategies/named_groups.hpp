#pragma once

#include <string_view>

// The communicators that strategies make: what each is called, and the axis of the result that its
// traffic is counted to. A strategy that splits off a group takes its name from a row here, so that
// no group is without an axis.
namespace shardsim {

struct NamedGroup {
  const char* name;
  const char* axis;
};

namespace named_group {
inline constexpr NamedGroup kDp{"dp", "dp"};
inline constexpr NamedGroup kDpShard{"dp_shard", "dp"};
inline constexpr NamedGroup kDpReplicate{"dp_replicate", "dp"};
inline constexpr NamedGroup kDpExperts{"dp_experts", "dp"};
inline constexpr NamedGroup kDpShardExperts{"dp_shard_experts", "dp"};
inline constexpr NamedGroup kDpReplicateExperts{"dp_replicate_experts", "dp"};
inline constexpr NamedGroup kTp{"tp", "tp"};
inline constexpr NamedGroup kCp{"cp", "cp"};
inline constexpr NamedGroup kCpUlysses{"cp_ulysses", "cp"};
inline constexpr NamedGroup kCpRing{"cp_ring", "cp"};
inline constexpr NamedGroup kEp{"ep", "ep"};
inline constexpr NamedGroup kPp{"pp", "pp"};
inline constexpr NamedGroup kPpForward{"pp_forward", "pp"};
inline constexpr NamedGroup kPpBackward{"pp_backward", "pp"};
inline constexpr NamedGroup kPpUpForward{"pp_up_forward", "pp"};
inline constexpr NamedGroup kPpUpBackward{"pp_up_backward", "pp"};
inline constexpr NamedGroup kEmbedding{"embedding", "pp"};
/// Both only make the others; the world is named by the backend.
inline constexpr NamedGroup kWorld{"world", "none"};
inline constexpr NamedGroup kMembers{"members", "none"};
}  // namespace named_group

inline constexpr const NamedGroup* kNamedGroups[] = {&named_group::kDp,
                                                     &named_group::kDpShard,
                                                     &named_group::kDpReplicate,
                                                     &named_group::kDpExperts,
                                                     &named_group::kDpShardExperts,
                                                     &named_group::kDpReplicateExperts,
                                                     &named_group::kTp,
                                                     &named_group::kCp,
                                                     &named_group::kCpUlysses,
                                                     &named_group::kCpRing,
                                                     &named_group::kEp,
                                                     &named_group::kPp,
                                                     &named_group::kPpForward,
                                                     &named_group::kPpBackward,
                                                     &named_group::kPpUpForward,
                                                     &named_group::kPpUpBackward,
                                                     &named_group::kEmbedding,
                                                     &named_group::kWorld,
                                                     &named_group::kMembers};

}  // namespace shardsim
