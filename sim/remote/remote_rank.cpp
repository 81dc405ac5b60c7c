#include "sim/remote/remote_rank.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "backends/call.hpp"

namespace shardsim {

namespace {

constexpr const char* kWorld = "world";  // PyTorch's default group.

std::vector<std::byte> bytes_of(const std::vector<Tensor>& tensors) {
  std::vector<std::byte> bytes;
  for (const Tensor& tensor : tensors) {
    const auto size = static_cast<std::size_t>(tensor.num_bytes());
    const std::size_t before = bytes.size();
    bytes.resize(before + size);
    if (size > 0) std::memcpy(bytes.data() + before, tensor.wire_data(), size);
  }
  return bytes;
}

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

RemoteRank::RemoteRank(RemoteRun& run, Runtime& runtime, Communicator& world)
    : run_(run), runtime_(runtime), world_(world), rank_(run.world.rank(world.rank())) {}

void RemoteRank::serve() {
  using Kind = RemoteMessage::Kind;
  while (true) {
    RemoteMessage message = run_.ranks.next(rank_);
    switch (message.kind) {
      case Kind::form:
        form(message);
        break;
      case Kind::post:
        post(message);
        break;
      case Kind::wait:
        wait(message.number);
        break;
      case Kind::end:
        if (!message.name.empty()) fail(message);
        return wait_for_rest();
      case Kind::hello:
        break;
    }
  }
}

// --- Groups ------------------------------------------------------------------------------------

// A group is formed by each member for itself, as PyTorch does, so that nobody waits for others.
void RemoteRank::form(const RemoteMessage& message) {
  if (message.name == kWorld) return;
  const auto own = std::ranges::find(message.members, rank_.index());
  FiberGroup*& group = run_.groups[message.name];
  if (group == nullptr) {
    const std::uint64_t id = run_.groups.size();  // The world's is 0.
    group = &run_.world.add_group({.id = id, .path = id, .name = message.name}, message.members);
  }
  if (group->layout().members != message.members || own == message.members.end()) {
    std::vector<int> members = message.members;
    throw Error(
        ExitCode::communication, "E1397",
        concat("it forms group ", message.name, " of ranks ", format_ranks(ascending(members)),
               " at ", message.site, ", and another member of ranks ",
               format_ranks(ascending(group->layout().members))),
        "call new_group with the same ranks, in the same order, on all ranks");
  }
  groups_[message.name] = std::make_unique<FiberCommunicator>(
      *group, static_cast<int>(own - message.members.begin()), site_of(message.site));
}

Communicator& RemoteRank::group_of(const std::string& name) {
  if (name == kWorld) return world_;
  const auto found = groups_.find(name);
  if (found != groups_.end()) return *found->second;
  throw Error(ExitCode::internal, "E1398", concat("group ", name, " was never formed"), "");
}

// --- Calls -------------------------------------------------------------------------------------

CallSite RemoteRank::site_of(const std::string& site) const {
  const std::size_t colon = site.rfind(':');
  if (colon == std::string::npos) return {.file = run_.world.keep_name(site)};
  // Behind the line there may be the words "(backward)".
  const std::string_view digits = std::string_view(site).substr(colon + 1);
  const std::optional<int> line = parse_number<int>(digits.substr(0, digits.find(' ')));
  return {.file = run_.world.keep_name(site.substr(0, colon)), .line = line.value_or(0)};
}

Tensor RemoteRank::tensor_of(DType dtype, std::int64_t count) {
  return runtime_.allocate(MemoryCategory::comm, Shape{count}, dtype);
}

// The next part of the message's payload.
Tensor RemoteRank::given_of(DType dtype, std::int64_t count) {
  Tensor tensor = tensor_of(dtype, count);
  const auto bytes = static_cast<std::size_t>(tensor.num_bytes());
  if (bytes > payload_.size() - taken_) {
    throw Error(ExitCode::internal, "E1398",
                concat("a call gives ", payload_.size(), " bytes, and needs more"), "");
  }
  if (bytes > 0) std::memcpy(tensor.wire_data(), payload_.data() + taken_, bytes);
  taken_ += bytes;
  return tensor;
}

void RemoteRank::post(RemoteMessage& message) {
  ++run_.num_calls;
  payload_ = std::move(message.payload);
  taken_ = 0;
  Communicator& group = group_of(message.name);
  Posted& posted = posted_[message.number];
  const CallSite site = site_of(message.site);
  posted.work = message.call.kind == CallKind::collective
                    ? start(group, message.call, posted, site)
                    : start_messages(group, message.call, posted, site);
}

Work RemoteRank::start(Communicator& group, const ProgramCall& call, Posted& posted,
                       CallSite site) {
  const CollectiveRow& row = row_of(call.collective);
  const CallRecord& record = call.record;
  const CallOptions options{.counts = call.counts};
  if (row.path == CollectivePath::pairs) {
    posted.given = {given_of(record.dtype, sum_of(call.send_counts))};
    posted.results = {tensor_of(record.dtype, sum_of(call.recv_counts))};
    return group.all_to_all(posted.results[0], posted.given[0], call.send_counts, call.recv_counts,
                            options, site);
  }
  const auto place = static_cast<std::size_t>(group.rank());
  const auto elements = [&](BufferPart part) {
    if (part == BufferPart::none) return std::int64_t{0};
    if (part == BufferPart::whole) return record.count;
    return call.counts.empty() ? record.count / group.size() : call.counts.at(place);
  };
  const bool is_root = record.root == group.rank();
  // A root alone gives to all, or gets from all.
  const bool gives = row.root != RootRole::source || row.in_place() || is_root;
  const bool gets = row.root != RootRole::target || row.in_place() || is_root;
  Tensor input;
  Tensor output;
  if (gives) input = given_of(record.dtype, elements(row.input));
  if (gets) output = row.in_place() ? input : tensor_of(record.dtype, elements(row.output));
  posted.given = {input};
  if (gets && row.output != BufferPart::none) posted.results = {output};
  return group.collective(call.collective, output, input, record.reduce, std::max(record.root, 0),
                          options, site);
}

Work RemoteRank::start_messages(Communicator& group, const ProgramCall& call, Posted& posted,
                                CallSite site) {
  std::vector<P2pOp> halves;
  for (const ProgramMessage& message : call.messages) {
    const Tensor buffer = message.sends ? given_of(message.dtype, message.count)
                                        : tensor_of(message.dtype, message.count);
    (message.sends ? posted.given : posted.results).push_back(buffer);
    halves.push_back({message.sends ? P2pOp::Kind::send : P2pOp::Kind::recv, buffer, message.peer});
  }
  if (call.kind == CallKind::batch) return group.batch(halves, {}, site);
  const P2pOp& half = halves.at(0);
  return call.kind == CallKind::send ? group.send(half.buffer, half.peer, {}, site)
                                     : group.recv(half.buffer, half.peer, {}, site);
}

void RemoteRank::wait(std::int64_t number) {
  const auto found = posted_.find(number);
  if (found == posted_.end()) {
    throw Error(ExitCode::internal, "E1398", concat("call ", number, " was never made"), "");
  }
  found->second.work.wait();
  run_.ranks.answer(rank_, bytes_of(found->second.results));
  posted_.erase(found);
}

// PyTorch lets a script drop a work. Its members must match all the same.
void RemoteRank::wait_for_rest() {
  for (auto& [number, posted] : posted_) posted.work.wait();
  posted_.clear();
}

void RemoteRank::fail(const RemoteMessage& message) const {
  run_.ranks.show_last_lines(rank_.index());
  throw Error(ExitCode::check_failed, "E1395",
              concat(message.name, message.site.empty() ? "" : " at " + message.site),
              "mend the script: a rank of a cluster would end here, and the others would wait");
}

}  // namespace shardsim
