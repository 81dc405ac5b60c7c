#include "sim/remote/remote_ranks.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "backends/rendezvous/monotonic_clock.hpp"

namespace shardsim {

namespace {

constexpr int kSliceMilliseconds = 20;
constexpr double kStackSeconds = 1.0;  // For a silent rank to write its stack.
constexpr double kGraceSeconds = 0.5;
// For PyTorch to be loaded, and the virtual device to be built, before the script begins. A longer
// limit of silence is that of the start, too.
constexpr double kLeastStartSeconds = 600.0;
constexpr std::size_t kShownLines = 25;

int listen_at(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (text.size() < sizeof(address.sun_path)) {
    std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  } else {
    errno = ENAMETOOLONG;
  }
  if (made < 0 || text.size() >= sizeof(address.sun_path) ||
      bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(made, SOMAXCONN) != 0) {
    const std::string cause = std::strerror(errno);
    if (made >= 0) close(made);
    throw Error(ExitCode::backend_failed, "E1387",
                concat("no socket can be made at ", text, ": ", cause),
                "name another folder for temporary files (TMPDIR), with a short path");
  }
  return made;
}

// The innermost line of the script in a stack that Python's faulthandler has written.
std::string script_line(const std::string& stack) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  for (const std::string_view line : split_at(std::string_view(stack), '\n')) {
    if (!line.starts_with(kFile)) continue;
    const std::size_t end = line.find(kLine);
    if (end == std::string_view::npos) continue;
    const std::string_view file = line.substr(kFile.size(), end - kFile.size());
    const bool is_library = file.find("/python3") != std::string_view::npos ||
                            file.find("-packages/") != std::string_view::npos ||
                            file.find("/shardsim/torch/") != std::string_view::npos ||
                            file.starts_with("<");
    if (is_library) continue;
    const std::string_view number = line.substr(end + kLine.size());
    return concat(file, ":", number.substr(0, number.find(' ')));
  }
  return {};
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

struct RemoteRanks::Place {
  std::unique_ptr<RankConnection> connection;  // Null: it has not come yet.
  bool is_gone = false;                        // Nothing will come any more.
  RankState* waiting = nullptr;                // Its fiber waits for a message
  double since_s = 0.0;                        // since then.
  int process = -1;
  std::ostringstream printed;
};

std::filesystem::path socket_path(const std::filesystem::path& folder) { return folder / "calls"; }

std::filesystem::path stack_path(const std::filesystem::path& folder, int rank) {
  return folder / ("stack-" + std::to_string(rank));
}

RemoteRanks::RemoteRanks(Engine& engine, RemoteRanksOptions options)
    : engine_(engine),
      options_(std::move(options)),
      listener_(listen_at(socket_path(options_.folder))) {
  for (int rank = 0; rank < options_.world_size; ++rank) {
    places_.push_back(std::make_unique<Place>());
    ProcessCommand command = options_.command(rank);
    const bool is_shown = rank == 0 && options_.output != nullptr;
    command.output = is_shown ? options_.output : &places_.back()->printed;
    places_.back()->process = launcher_.start(command);
  }
  engine_.set_outside(this);
}

RemoteRanks::~RemoteRanks() {
  engine_.set_outside(nullptr);
  launcher_.stop(0.0);  // They hold nothing that is worth a farewell.
  if (listener_ >= 0) close(listener_);
}

RemoteRanks::Place& RemoteRanks::place_of(const RankState& rank) {
  return *places_[static_cast<std::size_t>(rank.index())];
}

RemoteMessage RemoteRanks::next(RankState& rank) {
  Place& place = place_of(rank);
  while (true) {
    if (place.connection != nullptr) {
      if (std::optional<RemoteMessage> message = place.connection->take())
        return *std::move(message);
    }
    if (place.is_gone) refuse_ended(rank.index());
    place.waiting = &rank;
    place.since_s = monotonic_seconds();
    engine_.wait_outside(rank);
  }
}

void RemoteRanks::answer(const RankState& rank, std::span<const std::byte> bytes) {
  place_of(rank).connection->answer(bytes);
}

void RemoteRanks::wait_for_ranks() {
  while (!wake()) {
    if (InterruptGuard::interrupted()) {
      throw Error(ExitCode::interrupted, "E9000", "interrupted; all ranks are ended",
                  "give the same command again");
    }
    read_all(kSliceMilliseconds);
    launcher_.poll(0.0);
    const double now = monotonic_seconds();
    for (std::size_t rank = 0; rank < places_.size(); ++rank) {
      const Place& place = *places_[rank];
      const bool has_message = place.connection != nullptr && place.connection->has_message();
      if (place.waiting != nullptr && !has_message && now - place.since_s > limit_of(place)) {
        refuse_silent(static_cast<int>(rank));
      }
    }
  }
}

// Ranks whose messages have come, or will not come, go on.
bool RemoteRanks::wake() {
  bool woken = false;
  for (const std::unique_ptr<Place>& place : places_) {
    const bool has_message = place->connection != nullptr && place->connection->has_message();
    if (place->waiting == nullptr || !(has_message || place->is_gone)) continue;
    engine_.come_back(*std::exchange(place->waiting, nullptr));
    woken = true;
  }
  return woken;
}

void RemoteRanks::accept_ranks() {
  while (true) {
    const int made = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (made < 0) return;
    strangers_.push_back(std::make_unique<RankConnection>(made));
  }
}

void RemoteRanks::greet(std::unique_ptr<RankConnection> connection) {
  const std::optional<RemoteMessage> hello = connection->take();
  const bool is_rank =
      hello && hello->kind == RemoteMessage::Kind::hello && hello->number < options_.world_size;
  if (!is_rank) return;  // The socket lies in a folder of ours; it is closed.
  Place& place = *places_[static_cast<std::size_t>(hello->number)];
  place.connection = std::move(connection);
  place.since_s = monotonic_seconds();
}

void RemoteRanks::read_all(int milliseconds) {
  std::vector<pollfd> sockets = {{.fd = listener_, .events = POLLIN, .revents = 0}};
  std::vector<Place*> read;
  for (const std::unique_ptr<Place>& place : places_) {
    if (place->connection == nullptr || place->is_gone || place->waiting == nullptr) continue;
    sockets.push_back({.fd = place->connection->socket(), .events = POLLIN, .revents = 0});
    read.push_back(place.get());
  }
  for (const std::unique_ptr<RankConnection>& stranger : strangers_) {
    sockets.push_back({.fd = stranger->socket(), .events = POLLIN, .revents = 0});
  }
  poll(sockets.data(), sockets.size(), milliseconds);
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (sockets[i + 1].revents == 0) continue;
    read[i]->since_s = monotonic_seconds();
    read[i]->is_gone = !read[i]->connection->read();
  }
  accept_ranks();
  for (std::unique_ptr<RankConnection>& stranger : strangers_) {
    const bool is_open = stranger->read();
    if (stranger->has_message()) {
      greet(std::move(stranger));
    } else if (!is_open) {
      stranger.reset();
    }
  }
  std::erase(strangers_, nullptr);
  // Processes that it has started may keep its socket open.
  for (const std::unique_ptr<Place>& place : places_) {
    if (place->waiting == nullptr || !launcher_.end_of(place->process)) continue;
    if (place->connection != nullptr) place->connection->read();
    place->is_gone = true;
  }
}

// --- What goes wrong ---------------------------------------------------------------------------

void RemoteRanks::show_last_lines(int rank) const {
  const std::string printed = places_[static_cast<std::size_t>(rank)]->printed.str();
  if (options_.output == nullptr || printed.empty()) return;
  std::vector<std::string_view> lines = split_at(std::string_view(printed), '\n');
  if (lines.back().empty()) lines.pop_back();
  const std::size_t first = lines.size() > kShownLines ? lines.size() - kShownLines : 0;
  for (std::size_t i = first; i < lines.size(); ++i) {
    *options_.output << "[rank " << rank << "] " << lines[i] << "\n";
  }
}

void RemoteRanks::refuse_ended(int rank) {
  const Place& place = *places_[static_cast<std::size_t>(rank)];
  // The socket goes a moment before the process.
  const double until = monotonic_seconds() + kGraceSeconds;
  while (!launcher_.end_of(place.process) && monotonic_seconds() < until) launcher_.poll(0.02);
  const std::optional<ProcessEnd>& end = launcher_.end_of(place.process);
  show_last_lines(rank);
  throw Error(ExitCode::backend_failed, "E1393",
              concat("the process ", end ? end->describe() : "has closed its socket",
                     " before its script had ended"),
              "see what it has printed; a script must not call os._exit");
}

double RemoteRanks::limit_of(const Place& place) const {
  return place.connection != nullptr ? options_.limit_s
                                     : std::max(options_.limit_s, kLeastStartSeconds);
}

void RemoteRanks::refuse_silent(int rank) {
  const Place& place = *places_[static_cast<std::size_t>(rank)];
  const int pid = launcher_.pid(place.process);
  const std::filesystem::path path = stack_path(options_.folder, rank);
  kill(pid, SIGUSR1);
  const double until = monotonic_seconds() + kStackSeconds;
  std::string stack;
  while (script_line(stack).empty() && monotonic_seconds() < until) {
    launcher_.poll(0.02);
    stack = text_of(path);
  }
  const std::string line = script_line(stack);
  show_last_lines(rank);
  if (options_.output != nullptr) *options_.output << stack;
  throw RankFailed(rank,
                   Error(ExitCode::communication, "E1394",
                         concat(place.connection != nullptr ? "it has neither called nor ended"
                                                            : "its script has not begun",
                                " for ", static_cast<int>(limit_of(place)), " s",
                                line.empty() ? "" : concat("; it is at ", line)),
                         "end its loop, or give it more time (--limit)"));
}

}  // namespace shardsim
