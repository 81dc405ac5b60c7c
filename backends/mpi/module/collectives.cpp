#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "backends/mpi/module/job.hpp"

// MPI's own collectives, nonblocking. Reductions are done by functions of the core, so that all
// element types have them and round as everywhere.
namespace shardsim_mpi {

namespace {

std::array<ShardsimMpiCombine, kShardsimMpiReductions> combines{};
std::array<MPI_Op, kShardsimMpiReductions> reductions = [] {
  std::array<MPI_Op, kShardsimMpiReductions> none{};
  none.fill(MPI_OP_NULL);
  return none;
}();

// MPI hands a reduction no context: one function per index.
template <std::size_t index>
void combine_by(void* in, void* inout, int* count, MPI_Datatype*) {
  combines[index](in, inout, *count);
}

template <std::size_t... index>
constexpr auto make_trampolines(std::index_sequence<index...>) {
  return std::array<MPI_User_function*, sizeof...(index)>{combine_by<index>...};
}

constexpr auto kTrampolines = make_trampolines(std::make_index_sequence<kShardsimMpiReductions>());

MPI_Datatype datatype_of(std::int32_t element_bytes) {
  static std::array<MPI_Datatype, 9> made = [] {
    std::array<MPI_Datatype, 9> none{};
    none.fill(MPI_DATATYPE_NULL);
    return none;
  }();
  MPI_Datatype& datatype = made[static_cast<std::size_t>(element_bytes)];
  if (datatype == MPI_DATATYPE_NULL) {
    MPI_Type_contiguous(element_bytes, MPI_BYTE, &datatype);
    MPI_Type_commit(&datatype);
  }
  return datatype;
}

// Counts and places of all members; false if they do not fit into MPI's 32 bits.
struct Parts {
  std::vector<int> counts;
  std::vector<int> places;
};

bool set_parts(Parts& parts, const std::int64_t* counts, int size) {
  std::int64_t begin = 0;
  for (int member = 0; member < size; ++member) {
    if (begin > INT_MAX || counts[member] > INT_MAX) return false;
    parts.counts.push_back(static_cast<int>(counts[member]));
    parts.places.push_back(static_cast<int>(begin));
    begin += counts[member];
  }
  return begin <= INT_MAX;
}

// MPI reads the arrays until the operation has ended: they are kept with the group, and used again
// by the next call, which cannot start earlier.
struct Arrays {
  Parts sent;
  Parts received;
};
std::vector<Arrays>& arrays() {
  static std::vector<Arrays> by_group;
  return by_group;
}

// all_reduce, broadcast and reduce: in pieces of at most INT_MAX elements.
std::int32_t start_in_pieces(MPI_Comm comm, const ShardsimMpiCollective& call, Request& request) {
  const MPI_Datatype type = datatype_of(call.element_bytes);
  const std::int64_t most = std::min<std::int64_t>(
      INT_MAX, std::max<std::int64_t>(1, job().piece_bytes / call.element_bytes));
  const auto* in = static_cast<const char*>(call.in);
  auto* out = static_cast<char*>(call.out);
  std::int64_t begin = 0;
  do {
    const int count = static_cast<int>(std::min(most, call.count - begin));
    const std::int64_t place = begin * call.element_bytes;
    MPI_Request piece = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    if (call.kind == ShardsimMpiCollective::all_reduce) {
      code = MPI_Iallreduce(MPI_IN_PLACE, out + place, count, type,
                            reductions[static_cast<std::size_t>(call.reduction)], comm, &piece);
    } else if (call.kind == ShardsimMpiCollective::broadcast) {
      code = MPI_Ibcast(out + place, count, type, call.root, comm, &piece);
    } else {
      code = MPI_Ireduce(in + place, out + place, count, type,
                         reductions[static_cast<std::size_t>(call.reduction)], call.root, comm,
                         &piece);
    }
    const std::int32_t status = checked(code, "a collective of MPI");
    if (status != kMpiOk) return status;
    request.pieces.push_back(piece);
    begin += count;
  } while (begin < call.count);
  return kMpiOk;
}

int start_of_parts(MPI_Comm comm, const ShardsimMpiCollective& call, const Arrays& parts,
                   MPI_Request* piece) {
  int self = 0;
  MPI_Comm_rank(comm, &self);
  const MPI_Datatype type = datatype_of(call.element_bytes);
  const Parts& sent = parts.sent;
  const int own = sent.counts[static_cast<std::size_t>(self)];
  switch (call.kind) {
    case ShardsimMpiCollective::reduce_scatter:
      return MPI_Ireduce_scatter(call.in, call.out, sent.counts.data(), type,
                                 reductions[static_cast<std::size_t>(call.reduction)], comm, piece);
    case ShardsimMpiCollective::all_gather:
      return MPI_Iallgatherv(call.in, own, type, call.out, sent.counts.data(), sent.places.data(),
                             type, comm, piece);
    case ShardsimMpiCollective::all_to_all:
      return MPI_Ialltoallv(call.in, sent.counts.data(), sent.places.data(), type, call.out,
                            parts.received.counts.data(), parts.received.places.data(), type, comm,
                            piece);
    case ShardsimMpiCollective::gather:
      return MPI_Igatherv(call.in, own, type, call.out, sent.counts.data(), sent.places.data(),
                          type, call.root, comm, piece);
    default:
      return MPI_Iscatterv(call.in, sent.counts.data(), sent.places.data(), type, call.out, own,
                           type, call.root, comm, piece);
  }
}

}  // namespace

void set_reduction(std::int32_t index, ShardsimMpiCombine combine) {
  const auto at = static_cast<std::size_t>(index);
  combines[at] = combine;
  if (reductions[at] == MPI_OP_NULL)
    MPI_Op_create(kTrampolines[at], /*commute=*/1, &reductions[at]);
}

void free_reductions() {
  for (MPI_Op& reduction : reductions) {
    if (reduction != MPI_OP_NULL) MPI_Op_free(&reduction);
  }
}

std::int32_t start_collective(std::int32_t group, const ShardsimMpiCollective* call,
                              std::int64_t* number) {
  MPI_Comm comm = job().group(group);
  Request request;
  if (call->counts == nullptr) {
    const std::int32_t status = start_in_pieces(comm, *call, request);
    if (status != kMpiOk) return status;
  } else {
    int size = 0;
    MPI_Comm_size(comm, &size);
    if (arrays().size() < job().groups.size()) arrays().resize(job().groups.size());
    Arrays& parts = arrays()[static_cast<std::size_t>(group)];
    parts = {};
    const bool both = call->receive_counts != nullptr;
    if (!set_parts(parts.sent, call->counts, size) ||
        (both && !set_parts(parts.received, call->receive_counts, size))) {
      job().error = "more elements than collectives of MPI can count";
      return kMpiFailed;
    }
    MPI_Request piece = MPI_REQUEST_NULL;
    const std::int32_t status =
        checked(start_of_parts(comm, *call, parts, &piece), "a collective of MPI");
    if (status != kMpiOk) return status;
    request.pieces.push_back(piece);
  }
  *number = job().keep(std::move(request));
  return kMpiOk;
}

}  // namespace shardsim_mpi
