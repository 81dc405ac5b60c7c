#include "backends/mpi/module/job.hpp"

#include <algorithm>
#include <climits>
#include <utility>

namespace shardsim_mpi {

namespace {

// Tag of all messages. Two processes already keep their messages in order, and groups are
// communicators.
constexpr int kTag = 1;

std::int32_t open(std::int32_t monitor, std::int64_t piece_bytes) {
  if (monitor != 0) ask_for_monitoring();
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    job().error = "MPI_Init_thread failed, or this MPI does not support a second thread";
    return kMpiFailed;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  job().groups = {MPI_COMM_WORLD};
  job().piece_bytes = piece_bytes;
  return kMpiOk;
}

const char* library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  // The first words: name and version; then come the builder's own.
  const std::string all(text, static_cast<std::size_t>(length));
  job().library = all.substr(0, all.find_first_of(",\n"));
  return job().library.c_str();
}

std::int32_t rank(std::int32_t group) {
  int rank = 0;
  MPI_Comm_rank(job().group(group), &rank);
  return rank;
}

std::int32_t size(std::int32_t group) {
  int size = 0;
  MPI_Comm_size(job().group(group), &size);
  return size;
}

void close() {
  free_reductions();
  const int self = rank(0);
  const int all = size(0);
  MPI_Finalize();
  collect_monitoring(self, all);
}

void world_ranks(std::int32_t group, std::int32_t* ranks) {
  std::vector<int> own(static_cast<std::size_t>(size(group)));
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<int>(i);
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Group everyone = MPI_GROUP_NULL;
  MPI_Comm_group(job().group(group), &members);
  MPI_Comm_group(MPI_COMM_WORLD, &everyone);
  MPI_Group_translate_ranks(members, static_cast<int>(own.size()), own.data(), everyone, ranks);
  MPI_Group_free(&members);
  MPI_Group_free(&everyone);
}

std::int32_t split(std::int32_t group, std::int32_t color, std::int32_t key, std::int32_t* made) {
  MPI_Comm comm = MPI_COMM_NULL;
  const std::int32_t status =
      checked(MPI_Comm_split(job().group(group), color < 0 ? MPI_UNDEFINED : color, key, &comm),
              "MPI_Comm_split");
  if (status != kMpiOk) return status;
  *made = -1;
  if (comm == MPI_COMM_NULL) return kMpiOk;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  *made = static_cast<std::int32_t>(job().groups.size());
  job().groups.push_back(comm);
  return kMpiOk;
}

void free_group(std::int32_t group) {
  MPI_Comm& comm = job().groups[static_cast<std::size_t>(group)];
  if (group != 0 && comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
}

// Calls start(place, bytes) for each piece; an empty message is a piece, too.
template <class Start>
std::int32_t in_pieces(std::int64_t bytes, const char* what, std::int64_t* number, bool receives,
                       Start&& start) {
  Request request;
  std::int64_t begin = 0;
  do {
    const std::int64_t length = std::min(job().piece_bytes, bytes - begin);
    MPI_Request piece = MPI_REQUEST_NULL;
    const std::int32_t status = checked(start(begin, static_cast<int>(length), &piece), what);
    if (status != kMpiOk) return status;
    request.pieces.push_back(piece);
    if (receives) request.expected_bytes.push_back(length);
    begin += length;
  } while (begin < bytes);
  *number = job().keep(std::move(request));
  return kMpiOk;
}

int world_rank_of(std::int32_t group, std::int32_t peer) {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(size(group)));
  world_ranks(group, ranks.data());
  return ranks[static_cast<std::size_t>(peer)];
}

std::int32_t send(std::int32_t group, std::int32_t peer, const void* data, std::int64_t bytes,
                  std::int32_t rendezvous, std::int64_t* request) {
  const auto* const from = static_cast<const char*>(data);
  // A synchronous send is done only when its receiver has asked for it.
  const auto start = rendezvous != 0 ? MPI_Issend : MPI_Isend;
  if (bytes > job().piece_bytes) {
    job().extra_pieces[world_rank_of(group, peer)] += (bytes - 1) / job().piece_bytes;
  }
  return in_pieces(
      bytes, "MPI_Isend", request, false, [&](std::int64_t begin, int length, MPI_Request* piece) {
        return start(from + begin, length, MPI_BYTE, peer, kTag, job().group(group), piece);
      });
}

std::int32_t receive(std::int32_t group, std::int32_t peer, void* data, std::int64_t bytes,
                     std::int64_t* request) {
  auto* const to = static_cast<char*>(data);
  return in_pieces(
      bytes, "MPI_Irecv", request, true, [&](std::int64_t begin, int length, MPI_Request* piece) {
        return MPI_Irecv(to + begin, length, MPI_BYTE, peer, kTag, job().group(group), piece);
      });
}

// Receives from any source cannot tell the pieces of two senders apart: such messages are whole.
bool fits_in_one(std::int64_t bytes) {
  if (bytes <= INT_MAX) return true;
  job().error = "a message with a tag has " + std::to_string(bytes) + " bytes, at most " +
                std::to_string(INT_MAX) + " are possible";
  return false;
}

std::int32_t send_tagged(std::int32_t group, std::int32_t peer, std::int32_t tag, const void* data,
                         std::int64_t bytes, std::int32_t rendezvous, std::int64_t* request) {
  if (!fits_in_one(bytes)) return kMpiFailed;
  const auto start = rendezvous != 0 ? MPI_Issend : MPI_Isend;
  MPI_Request piece = MPI_REQUEST_NULL;
  const std::int32_t status =
      checked(start(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, job().group(group), &piece),
              "MPI_Isend");
  if (status == kMpiOk) *request = job().keep({{piece}, {}});
  return status;
}

std::int32_t receive_tagged(std::int32_t group, std::int32_t source, std::int32_t tag, void* data,
                            std::int64_t bytes, std::int64_t* request) {
  if (!fits_in_one(bytes)) return kMpiFailed;
  MPI_Request piece = MPI_REQUEST_NULL;
  const std::int32_t status = checked(
      MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, source < 0 ? MPI_ANY_SOURCE : source,
                tag < 0 ? MPI_ANY_TAG : tag, job().group(group), &piece),
      "MPI_Irecv");
  if (status == kMpiOk) *request = job().keep({{piece}, {bytes}, true});
  return status;
}

std::int32_t probe(std::int32_t group, std::int32_t source, std::int32_t tag, std::int32_t* found) {
  int flag = 0;
  const std::int32_t status =
      checked(MPI_Iprobe(source < 0 ? MPI_ANY_SOURCE : source, tag < 0 ? MPI_ANY_TAG : tag,
                         job().group(group), &flag, &job().taken),
              "MPI_Iprobe");
  *found = flag;
  return status;
}

void taken(std::int32_t* source, std::int32_t* tag, std::int64_t* bytes) {
  int count = 0;
  MPI_Get_count(&job().taken, MPI_BYTE, &count);
  *source = job().taken.MPI_SOURCE;
  *tag = job().taken.MPI_TAG;
  *bytes = count;
}

std::int32_t barrier(std::int32_t group, std::int64_t* request) {
  MPI_Request piece = MPI_REQUEST_NULL;
  const std::int32_t status = checked(MPI_Ibarrier(job().group(group), &piece), "MPI_Ibarrier");
  if (status == kMpiOk) *request = job().keep({{piece}, {}});
  return status;
}

// Status of one piece that has ended.
std::int32_t status_of(int code, const MPI_Status& status, const Request& request,
                       std::size_t piece) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  if (request.is_tagged) job().taken = status;
  if (error_class == MPI_ERR_TRUNCATE) {
    job().error = "a message is longer than the " + std::to_string(request.expected_bytes[piece]) +
                  " bytes asked for";
    return kMpiOtherSize;
  }
  if (code != MPI_SUCCESS) return checked(code, "MPI_Test");
  if (request.expected_bytes.empty() || request.is_tagged) return kMpiOk;
  int received = 0;
  MPI_Get_count(&status, MPI_BYTE, &received);
  if (received == request.expected_bytes[piece]) return kMpiOk;
  job().error = "a message has " + std::to_string(received) + " bytes where " +
                std::to_string(request.expected_bytes[piece]) + " were asked for";
  return kMpiOtherSize;
}

std::int32_t test(std::int64_t number, std::int32_t* done) {
  Request& request = job().requests[static_cast<std::size_t>(number)];
  *done = 1;
  for (std::size_t piece = 0; piece < request.pieces.size(); ++piece) {
    if (request.pieces[piece] == MPI_REQUEST_NULL) continue;
    int ended = 0;
    MPI_Status status{};
    const int code = MPI_Test(&request.pieces[piece], &ended, &status);
    if (code == MPI_SUCCESS && ended == 0) {
      *done = 0;
      continue;
    }
    const std::int32_t result = status_of(code, status, request, piece);
    if (result != kMpiOk) return result;
  }
  if (*done == 1) job().free_requests.push_back(number);
  return kMpiOk;
}

}  // namespace

Job& job() {
  static Job the_job;
  return the_job;
}

std::int64_t Job::keep(Request request) {
  if (free_requests.empty()) {
    requests.push_back(std::move(request));
    return static_cast<std::int64_t>(requests.size()) - 1;
  }
  const std::int64_t number = free_requests.back();
  free_requests.pop_back();
  requests[static_cast<std::size_t>(number)] = std::move(request);
  return number;
}

std::int32_t checked(int code, const char* what) {
  if (code == MPI_SUCCESS) return kMpiOk;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  job().error = std::string(what) + ": " + std::string(text, static_cast<std::size_t>(length));
  return kMpiFailed;
}

const ShardsimMpiTable& module_table() {
  static const ShardsimMpiTable table = {
      .version = kShardsimMpiVersion,
      .num_bytes = sizeof(ShardsimMpiTable),
      .open = open,
      .close = close,
      .forget = forget_monitoring,
      .library = library,
      .error_text = [] { return job().error.c_str(); },
      .rank = rank,
      .size = size,
      .world_ranks = world_ranks,
      .split = split,
      .free_group = free_group,
      .send = send,
      .receive = receive,
      .send_tagged = send_tagged,
      .receive_tagged = receive_tagged,
      .probe = probe,
      .taken = taken,
      .barrier = barrier,
      .collective = start_collective,
      .test = test,
      .set_reduction = set_reduction,
      .wire = wire,
  };
  return table;
}

}  // namespace shardsim_mpi

extern "C" __attribute__((visibility("default"))) const ShardsimMpiTable* shardsim_mpi_module() {
  return &shardsim_mpi::module_table();
}
