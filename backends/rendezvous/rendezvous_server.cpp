#include "backends/rendezvous/rendezvous_server.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <boost/asio.hpp>

#include "sim/kernel/error.hpp"

#include "backends/rendezvous/launch_environment.hpp"
#include "backends/rendezvous/monotonic_clock.hpp"

namespace shardsim {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failed = boost::system::error_code;

// Limits of connections that have not shown the token.
constexpr std::size_t kMaxStrangerBytes = 4096;
constexpr double kStrangerSeconds = 5.0;
constexpr std::size_t kMostStrangers = 64;
// Unsent bytes at which a peer that does not read is dropped.
constexpr std::size_t kMostUnsentToPeer = std::size_t{16} << 20U;
constexpr auto kTick = std::chrono::milliseconds(20);

}  // namespace

class RendezvousServer::Service {
 public:
  explicit Service(RendezvousServerOptions options);
  ~Service();
  void listen();

 private:
  friend class RendezvousServer;
  struct Connection {
    Connection(int number, tcp::socket accepted) : id(number), socket(std::move(accepted)) {}
    int id;
    tcp::socket socket;
    double since_s = monotonic_seconds();
    FrameDecoder decoder{kMaxStrangerBytes};
    std::array<char, 16384> bytes{};
    std::deque<std::string> unsent;
    std::size_t num_unsent = 0;  // Bytes.
    bool closing = false;        // After what is unsent.
  };
  using Held = std::shared_ptr<Connection>;  // Also by the operations that are under way.

  void accept();
  void admit(tcp::socket socket);
  void read(const Held& connection);
  void take(const Held& connection, std::size_t num_bytes);
  void send(int id, const RendezvousMessage& message);
  void write(const Held& connection);
  void close_after_sending(int id);
  void drop(const Held& connection);
  void tick();
  [[nodiscard]] std::size_t num_strangers() const;

  RendezvousServerOptions options_;
  asio::io_context context_;
  tcp::acceptor acceptor_{context_};
  asio::steady_timer timer_{context_};
  tcp::endpoint endpoint_;
  // For the server's thread only.
  std::map<int, Held> connections_;
  int next_id_ = 0;
  bool accepting_ = false;
  bool told_ = false;  // The verdict.
  Supervisor supervisor_;
  // For all threads.
  std::mutex mutex_;
  std::condition_variable decided_;
  std::optional<Verdict> verdict_;
  std::map<std::string, std::string> values_;  // From the ranks, when there is a verdict.
  std::thread thread_;
};

RendezvousServer::Service::Service(RendezvousServerOptions options)
    : options_(std::move(options)),
      supervisor_(
          options_.world_size, options_.token, options_.times, monotonic_seconds(),
          [this](int id, const RendezvousMessage& message) { send(id, message); },
          [this](int id) { close_after_sending(id); }) {}

RendezvousServer::Service::~Service() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void RendezvousServer::Service::listen() {
  const auto refuse = [&](const Failed& failed) {
    throw Error(ExitCode::backend_failed, "E1001",
                "cannot listen on " + options_.address + ":" + std::to_string(options_.port) +
                    ": " + failed.message(),
                "give an address of this machine and a port that is free, or port 0 for any");
  };
  Failed failed;
  tcp::resolver resolver(context_);
  const auto found = resolver.resolve(options_.address, std::to_string(options_.port),
                                      tcp::resolver::passive, failed);
  if (failed) refuse(failed);
  endpoint_ = found.begin()->endpoint();
  acceptor_.open(endpoint_.protocol(), failed);
  if (!failed) acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor_.bind(endpoint_, failed);
  if (!failed) acceptor_.listen(tcp::acceptor::max_listen_connections, failed);
  if (failed) refuse(failed);
  endpoint_ = acceptor_.local_endpoint();
  accept();
  tick();
}

void RendezvousServer::Service::accept() {
  accepting_ = true;
  acceptor_.async_accept([this](const Failed& failed, tcp::socket socket) {
    if (failed) {
      // That connection failed, or no descriptor was free: the next tick tries again.
      accepting_ = false;
      return;
    }
    admit(std::move(socket));
    accept();
  });
}

std::size_t RendezvousServer::Service::num_strangers() const {
  std::size_t strangers = 0;
  for (const auto& [id, _] : connections_) strangers += supervisor_.knows(id) ? 0 : 1;
  return strangers;
}

void RendezvousServer::Service::admit(tcp::socket socket) {
  if (num_strangers() >= kMostStrangers) return;  // Closed; a rank tries again.
  Failed ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const auto connection = std::make_shared<Connection>(next_id_++, std::move(socket));
  connections_[connection->id] = connection;
  read(connection);
}

void RendezvousServer::Service::read(const Held& connection) {
  connection->socket.async_read_some(
      asio::buffer(connection->bytes),
      [this, connection](const Failed& failed, std::size_t num_bytes) {
        if (connections_.count(connection->id) == 0) return;
        if (failed) {
          drop(connection);
        } else {
          take(connection, num_bytes);
        }
      });
}

void RendezvousServer::Service::take(const Held& connection, std::size_t num_bytes) {
  // Data after a refusal are read, so that the refusal arrives, and ignored.
  if (connection->closing) return read(connection);
  connection->decoder.feed({connection->bytes.data(), num_bytes});
  while (std::optional<Frame> frame = connection->decoder.next()) {
    std::optional<RendezvousMessage> message = decode_message(*frame);
    if (!message) return drop(connection);
    supervisor_.on_message(connection->id, std::move(*message), monotonic_seconds());
    if (connections_.count(connection->id) == 0) return;
    if (connection->closing) return read(connection);
    if (supervisor_.knows(connection->id)) connection->decoder.set_max_bytes(kMaxFrameBytes);
  }
  if (connection->decoder.broken()) return drop(connection);
  read(connection);
}

void RendezvousServer::Service::send(int id, const RendezvousMessage& message) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second->closing) return;
  const Held connection = found->second;
  connection->unsent.push_back(encode_message(message));
  connection->num_unsent += connection->unsent.back().size();
  if (connection->num_unsent > kMostUnsentToPeer) {
    // Not from here: the supervisor is in the middle of something.
    asio::post(context_, [this, connection] { drop(connection); });
  } else if (connection->unsent.size() == 1) {
    write(connection);
  }
}

void RendezvousServer::Service::write(const Held& connection) {
  asio::async_write(connection->socket, asio::buffer(connection->unsent.front()),
                    [this, connection](const Failed& failed, std::size_t) {
                      if (connections_.count(connection->id) == 0) return;
                      if (failed) return drop(connection);
                      connection->num_unsent -= connection->unsent.front().size();
                      connection->unsent.pop_front();
                      if (!connection->unsent.empty()) return write(connection);
                      if (connection->closing) {
                        Failed ignored;
                        connection->socket.shutdown(tcp::socket::shutdown_send, ignored);
                      }
                    });
}

// The peer closes once it has read the end; if it does not, its time as a stranger runs out.
void RendezvousServer::Service::close_after_sending(int id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Held connection = found->second;
  connection->closing = true;
  connection->since_s = monotonic_seconds();
  if (!connection->unsent.empty()) return;
  Failed ignored;
  connection->socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void RendezvousServer::Service::drop(const Held& connection) {
  if (connections_.erase(connection->id) == 0) return;
  Failed ignored;
  connection->socket.close(ignored);
  supervisor_.on_lost(connection->id, monotonic_seconds());
}

void RendezvousServer::Service::tick() {
  const double now = monotonic_seconds();
  std::vector<Held> overdue;
  for (const auto& [id, connection] : connections_) {
    const bool known = supervisor_.knows(id) && !connection->closing;
    if (!known && now - connection->since_s > kStrangerSeconds) overdue.push_back(connection);
  }
  for (const Held& connection : overdue) drop(connection);
  if (!accepting_) accept();
  supervisor_.on_time(now);
  if (supervisor_.verdict() && !told_) {
    told_ = true;
    {
      const std::lock_guard lock(mutex_);
      verdict_ = supervisor_.verdict();
      values_ = supervisor_.store().values();
    }
    decided_.notify_all();
    if (options_.on_verdict) options_.on_verdict(*supervisor_.verdict());
  }
  timer_.expires_after(kTick);
  timer_.async_wait([this](const Failed& failed) {
    if (!failed) tick();
  });
}

RendezvousServer::RendezvousServer(RendezvousServerOptions options) {
  const bool has_token = !options.token.empty();
  if (!has_token) options.token = make_token();
  service_ = std::make_unique<Service>(std::move(options));
  service_->listen();
  if (!has_token && !service_->endpoint_.address().is_loopback()) {
    throw Error(ExitCode::bad_usage, "E1004",
                "the rendezvous would listen on " + address() +
                    ", which other machines reach, without a token that was given to it",
                "set SHARDSIM_TOKEN_FILE or SHARDSIM_TOKEN to the same secret for all ranks");
  }
  service_->thread_ = std::thread([this] { service_->context_.run(); });
}

RendezvousServer::~RendezvousServer() = default;

std::string RendezvousServer::address() const {
  const tcp::endpoint& endpoint = service_->endpoint_;
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(port());
}

int RendezvousServer::port() const { return service_->endpoint_.port(); }

const std::string& RendezvousServer::token() const { return service_->options_.token; }

void RendezvousServer::note_process_end(int rank, const std::string& description) {
  asio::post(service_->context_, [service = service_.get(), rank, description] {
    service->supervisor_.on_process_end(rank, description);
  });
}

void RendezvousServer::give_up(const RunFailure& failure) {
  asio::post(service_->context_, [service = service_.get(), failure] {
    service->supervisor_.on_given_up(failure, monotonic_seconds());
  });
}

std::optional<Verdict> RendezvousServer::verdict() const {
  const std::lock_guard lock(service_->mutex_);
  return service_->verdict_;
}

std::optional<std::string> RendezvousServer::value(const std::string& key) const {
  const std::lock_guard lock(service_->mutex_);
  const auto found = service_->values_.find(key);
  return found == service_->values_.end() ? std::nullopt : std::optional(found->second);
}

Verdict RendezvousServer::wait() const {
  std::unique_lock lock(service_->mutex_);
  service_->decided_.wait(lock, [this] { return service_->verdict_.has_value(); });
  return *service_->verdict_;
}

}  // namespace shardsim
