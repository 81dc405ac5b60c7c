#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "backends/hex.hpp"
#include "backends/nccl/nccl_backend.hpp"

// How communicators come into being: the world's from an id that rank 0 makes, the others by
// splitting. Both without blocking, polled with a deadline.
namespace shardsim {

namespace {

constexpr const char* kIdKey = "nccl.unique_id";

NcclConfig non_blocking() {
  NcclConfig config;
  config.blocking = 0;
  config.split_share = 0;  // Sharing would tie the parts' order and end to the whole's.
  return config;
}

NcclUniqueId from_text(const std::string& text) {
  NcclUniqueId id{};
  const std::optional<std::string> bytes = from_hex(text);
  if (bytes && bytes->size() == sizeof(id.bytes)) {
    std::copy(bytes->begin(), bytes->end(), id.bytes);
    return id;
  }
  throw Error(
      ExitCode::backend_failed, "E1038",
      fmt::format("what rank 0 gave as NCCL's id is no id: {} characters of 256", text.size()),
      "start all ranks of a run with the same shardsim");
}

}  // namespace

NcclStream& NcclBackend::open(const std::string& name, std::vector<int> members, int member) {
  auto stream = std::make_unique<NcclStream>();
  stream->stream = device_.make_stream();
  stream->name = name;
  stream->instance = instances_[{name, members}]++;
  stream->members = std::move(members);
  stream->member = member;
  streams_.push_back(std::move(stream));
  return *streams_.back();
}

void NcclBackend::exchange_id(NcclUniqueId& id) {
  if (rank() != 0) {
    id = from_text(options_.get(kIdKey));
    return;
  }
  nccl_->check(nccl_->functions().get_unique_id(&id), "ncclGetUniqueId", "world");
  options_.put(kIdKey, to_hex({id.bytes, sizeof(id.bytes)}));
}

void NcclBackend::form_world() {
  std::vector<int> everyone(static_cast<std::size_t>(options_.num_ranks));
  std::iota(everyone.begin(), everyone.end(), 0);
  NcclUniqueId id{};
  exchange_id(id);
  NcclStream& stream = open("world", std::move(everyone), rank());
  NcclConfig config = non_blocking();
  nccl_->check(nccl_->functions().comm_init_rank_config(&stream.comm, options_.num_ranks, id,
                                                        rank(), &config),
               "ncclCommInitRankConfig", stream.name);
  settle(stream, "formed");
  check_place(stream);
}

NcclStream& NcclBackend::split(NcclStream& parent, int color, int key, const std::string& name,
                               std::vector<int> members, int member) {
  NcclStream& stream = open(name, std::move(members), member);
  guarded([&] {
    split_comm(parent, color, key, stream.comm);
    settle(stream, "formed");
    check_place(stream);
  });
  return stream;
}

void NcclBackend::split_away(NcclStream& parent) {
  NcclComm none = nullptr;
  guarded([&] { split_comm(parent, kNoColor, 0, none); });
}

void NcclBackend::split_comm(NcclStream& parent, int color, int key, NcclComm& part) {
  // The other members may wait for launches of this process before they come here.
  go_on_until([this] { return launches_.empty(); },
              [&] { time_out(*launches_.front().stream, *launches_.front().operation); });
  NcclConfig config = non_blocking();
  nccl_->check(nccl_->functions().comm_split(parent.comm, color, key, &part, &config),
               "ncclCommSplit", parent.name);
  // The new communicator is not there before the old one is at rest.
  settle(parent, "split");
}

void NcclBackend::settle(const NcclStream& stream, const char* what) {
  const double start = options_.clock();
  while (in_progress(stream)) {
    if (options_.watch != nullptr) options_.watch->poll();
    if (options_.clock() - start > options_.deadline_s) {
      throw Error(
          ExitCode::backend_failed, "E1037",
          fmt::format("rank {}: the communicator \"{}\" was not {} within {} s: not all of "
                      "its {} ranks got there",
                      rank(), stream.name, what, options_.deadline_s, stream.members.size()),
          "look whether the other ranks are alive; NCCL_DEBUG=INFO shows how far each got");
    }
    options_.idle();
  }
}

void NcclBackend::check_place(const NcclStream& stream) const {
  const NcclFunctions& f = nccl_->functions();
  int size = 0;
  int place = 0;
  nccl_->check(f.comm_count(stream.comm, &size), "ncclCommCount", stream.name);
  nccl_->check(f.comm_user_rank(stream.comm, &place), "ncclCommUserRank", stream.name);
  if (size == static_cast<int>(stream.members.size()) && place == stream.member) return;
  throw Error(ExitCode::backend_failed, "E1039",
              fmt::format("rank {} is member {} of {} in \"{}\", and NCCL says {} of {}", rank(),
                          stream.member, stream.members.size(), stream.name, place, size),
              "run again with NCCL_DEBUG=INFO, and report this with its output");
}

}  // namespace shardsim
