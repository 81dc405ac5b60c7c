#include "backends/nccl/nccl_backend.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "backends/hex.hpp"

namespace shardsim {

namespace {

// Copies that are queued on the device may still read and write the buffers of what has not ended:
// those live as long as the process.
void keep_for_good(const std::deque<std::shared_ptr<NcclOperation>>& operations) {
  static auto& kept = *new std::vector<std::shared_ptr<NcclOperation>>;
  kept.insert(kept.end(), operations.begin(), operations.end());
}

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
  throw Error(ExitCode::backend_failed, "E1038",
              fmt::format("rank 0 sent an invalid NCCL id ({} of 256 characters)", text.size()),
              "start all ranks of a run with the same shardsim");
}

}  // namespace

NcclBackend::NcclBackend(std::shared_ptr<const CudaLibrary> cuda,
                         std::shared_ptr<const NcclLibrary> nccl, NcclOptions options)
    : cuda_(std::move(cuda)),
      nccl_(std::move(nccl)),
      options_(std::move(options)),
      device_(cuda_, options_.device, options_.slab_bytes) {
  guarded([this] { form_world(); });
}

NcclBackend::~NcclBackend() {
  if (!streams_.empty()) give_up();  // finish() was not called, or threw.
}

std::unique_ptr<Communicator> NcclBackend::world() {
  return std::make_unique<NcclCommunicator>(*this, *streams_.front());
}

// --- How communicators come into being ---------------------------------------------------------
// The world's comes from an id that rank 0 makes, the others come by splitting. Both are made
// without blocking, polled with a deadline.

NcclStream& NcclBackend::open(const std::string& name, std::vector<int> members, int member) {
  auto stream = std::make_unique<NcclStream>();
  stream->stream = device_.make_stream();
  stream->name = name;
  stream->instance = num_opened_[{name, members}]++;
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
          fmt::format("rank {}: the communicator \"{}\" was not {} within {} s: some of its {} "
                      "ranks did not get there",
                      rank(), stream.name, what, options_.deadline_s, stream.members.size()),
          "check that the other ranks are alive; NCCL_DEBUG=INFO shows how far each got");
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

// --- Launching ---------------------------------------------------------------------------------

void NcclBackend::post(NcclStream& stream, const std::shared_ptr<NcclOperation>& operation) {
  guarded([&] {
    stream.queue.push_back(operation);
    launches_.push_back({&stream, operation});
    tell(&CallWatch::posted, stream, *operation);
    launch();
  });
}

// It may send data that an earlier operation has not yet copied back.
bool NcclBackend::may_start(const NcclOperation& operation) const {
  for (const auto& stream : streams_) {
    for (const auto& each : stream->queue) {
      if (each.get() == &operation) break;
      const bool is_on_its_way = each->state() != NcclOperation::State::queued;
      if (is_on_its_way && operation.needs(*each)) return false;
    }
  }
  return true;
}

// True if it is on the device's stream.
bool NcclBackend::launch(const Launch& next) {
  NcclStream& stream = *next.stream;
  if (next.operation->state() == NcclOperation::State::queued) {
    if (!may_start(*next.operation)) return false;
    tell(&CallWatch::started, stream, *next.operation);
    next.operation->start(device_, *nccl_, stream.comm, stream.stream, stream.name);
  }
  if (in_progress(stream)) return false;
  next.operation->enqueued(device_, stream.stream);
  return true;
}

bool NcclBackend::launch() {
  bool moved = false;
  while (!launches_.empty() && launch(launches_.front())) {
    launches_.pop_front();
    moved = true;
  }
  return moved;
}

bool NcclBackend::collect() {
  bool moved = false;
  for (const auto& stream : streams_) {
    while (!stream->queue.empty()) {
      const std::shared_ptr<NcclOperation> operation = stream->queue.front();
      if (operation->state() < NcclOperation::State::running) break;
      moved |= operation->advance(device_);
      if (!operation->ended()) break;
      stream->last_ended = operation->record().describe();
      stream->queue.pop_front();
      tell(&CallWatch::ended, *stream, *operation);
    }
  }
  return moved;
}

// --- Waiting -----------------------------------------------------------------------------------

void NcclBackend::go_on_until(const std::function<bool()>& done,
                              const std::function<void()>& time_out) {
  double last_move = options_.clock();
  while (!done()) {
    const bool launched = launch();
    if (collect() || launched) {
      last_move = options_.clock();
      continue;
    }
    check_streams();
    if (options_.watch != nullptr) options_.watch->poll();
    if (options_.clock() - last_move > options_.deadline_s) time_out();
    options_.idle();
  }
}

void NcclBackend::check_alive() const {
  if (failure_) throw CommunicationError(*failure_);
  if (!given_up_) return;
  throw Error(ExitCode::backend_failed, "E1036",
              "a call after the communicators were aborted: an earlier failure ended the run",
              "see the first failure");
}

void NcclBackend::wait(NcclStream& stream, const NcclOperation& operation) {
  guarded([&] {
    go_on_until([&] { return operation.ended(); }, [&] { time_out(stream, operation); });
  });
}

bool NcclBackend::poll(const NcclStream& stream, const NcclOperation& operation) {
  guarded([&] {
    if (operation.ended()) return;
    const auto go_on = [this] {
      const bool launched = launch();
      const bool moved = collect() || launched;
      if (!moved) check_streams();
      return moved;
    };
    go_on_once(go_on, [&] { time_out(stream, operation); });
  });
  return operation.ended();
}

bool NcclBackend::in_progress(const NcclStream& stream) const {
  NcclStatus status = NcclStatus::success;
  nccl_->check(nccl_->functions().comm_get_async_error(stream.comm, &status),
               "ncclCommGetAsyncError", stream.name);
  nccl_->check(status, "a call that had been started", stream.name);
  return status == NcclStatus::in_progress;
}

void NcclBackend::check_streams() const {
  for (const auto& stream : streams_) {
    if (stream->comm != nullptr) static_cast<void>(in_progress(*stream));
  }
}

void NcclBackend::time_out(const NcclStream& stream, const NcclOperation& operation) const {
  // The running operation of this group, if the awaited one is queued behind it; or the operation
  // that blocks all launches.
  const NcclStream* where = &stream;
  const NcclOperation* stuck = stream.queue.empty() ? &operation : stream.queue.front().get();
  if (stuck->state() == NcclOperation::State::queued && !launches_.empty()) {
    where = launches_.front().stream;
    stuck = where->queue.front().get();
  }
  // NCCL does not name the missing ranks of a collective.
  std::set<int> silent;
  for (const CallWatch::Half& half : stuck->halves()) {
    silent.insert(where->members[static_cast<std::size_t>(half.peer)]);
  }
  silent.erase(rank());
  Diagnosis diagnosis = time_out_report(*where, *stuck, operation, {silent.begin(), silent.end()});
  diagnosis.hint =
      "run the scenario without --backend: the simulation shows who waits for whom; NCCL itself "
      "does not compare counts between ranks";
  throw CommunicationError(std::move(diagnosis));
}

// --- The end -----------------------------------------------------------------------------------

void NcclBackend::close(NcclStream& stream, GroupTraffic traffic) {
  traffic_.push_back(std::move(traffic));
  stream.closed = true;  // NCCL's end of it is for all ranks at once: see finish().
}

void NcclBackend::finish() {
  guarded([this] {
    for (const auto& stream : streams_) {
      while (!stream->queue.empty()) {
        const std::shared_ptr<NcclOperation> last = stream->queue.back();
        go_on_until([&] { return last->ended(); }, [&] { time_out(*stream, *last); });
      }
    }
    end_communicators();
  });
}

// Ending is collective: begun for all before any is waited for, parts before the whole.
void NcclBackend::end_communicators() {
  const bool all_closed = std::all_of(streams_.begin(), streams_.end(),
                                      [](const auto& stream) { return stream->closed; });
  if (!all_closed) return;  // An owner of one may continue.
  const NcclFunctions& f = nccl_->functions();
  for (auto it = streams_.rbegin(); it != streams_.rend(); ++it) {
    nccl_->check(f.comm_finalize((*it)->comm), "ncclCommFinalize", (*it)->name);
  }
  for (auto it = streams_.rbegin(); it != streams_.rend(); ++it) settle(**it, "ended");
  while (!streams_.empty()) {
    NcclStream& last = *streams_.back();
    NcclComm comm = std::exchange(last.comm, nullptr);
    nccl_->check(f.comm_destroy(comm), "ncclCommDestroy", last.name);
    streams_.pop_back();
  }
}

void NcclBackend::give_up() noexcept {
  if (std::exchange(given_up_, true)) return;
  device_.abandon();
  for (const auto& stream : streams_) {
    keep_for_good(stream->queue);
    NcclComm comm = std::exchange(stream->comm, nullptr);
    if (comm != nullptr) nccl_->functions().comm_abort(comm);
  }
}

}  // namespace shardsim
