#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <boost/asio.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "backends/rendezvous/monotonic_clock.hpp"
#include "backends/rendezvous/rendezvous_client.hpp"

namespace shardsim {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failed = boost::system::error_code;

constexpr double kMostBetweenBeats = 0.5;
constexpr double kRetrySeconds = 0.1;
// Unsent bytes at which a rank that posts calls must wait.
constexpr std::size_t kMostUnsentByRank = std::size_t{4} << 20U;

std::chrono::microseconds duration(double seconds) {
  return std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

[[noreturn]] void end_process() { _exit(static_cast<int>(ExitCode::backend_failed)); }

// The mutex guards state of both threads; the client's thread owns the rest.
class AsioLine final : public RendezvousLine {
 public:
  explicit AsioLine(RendezvousClientOptions options)
      : options_(std::move(options)),
        beat_s_(std::min(options_.deadline_s / 10, kMostBetweenBeats)) {}

  ~AsioLine() override {
    asio::post(context_, [this] { leave(); });
    if (thread_.joinable()) thread_.join();
  }

  void open();
  StoreReply ask(StoreRequest request) override;
  bool offer(const RendezvousMessage& message) override;
  void end() override;
  void wait_until_given_up() override;
  [[nodiscard]] std::optional<RunFailure> reason() const override {
    const std::lock_guard lock(mutex_);
    return reason_;
  }
  [[nodiscard]] bool given_up() const override { return given_up_; }
  [[nodiscard]] FlightRecord flight() const override {
    return options_.recorder == nullptr ? FlightRecord() : options_.recorder->record();
  }

 private:
  enum class State { connecting, connected, refused, ended };

  // For the client's thread only.
  void try_to_connect();
  void fail_to_connect(const std::string& why);
  void greet();
  void read();
  void take(std::size_t num_bytes);
  void hear(RendezvousMessage&& message);
  void send(const RendezvousMessage& message) { write(encode_message(message)); }
  void write(std::string frame);
  void write_next();
  void tick();
  void lose(const std::string& how);
  void give_up(RunFailure reason);
  void leave();
  void change_state(State state, const std::string& text);

  const RendezvousClientOptions options_;
  const double beat_s_;
  asio::io_context context_;
  tcp::resolver resolver_{context_};
  tcp::socket socket_{context_};
  asio::steady_timer retry_{context_};
  asio::steady_timer beat_{context_};
  FrameDecoder decoder_;
  std::array<char, 16384> bytes_{};
  std::deque<std::string> unsent_;
  double connect_until_s_ = 0.0;
  double last_heard_s_ = 0.0;
  double given_up_s_ = 0.0;
  bool resorted_ = false;
  bool leaving_ = false;
  std::string last_problem_ = "nothing answers";

  std::atomic<bool> given_up_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::connecting;
  std::string state_text_;
  std::optional<RunFailure> reason_;
  std::optional<StoreReply> reply_;
  std::int64_t asked_ = 0;  // The id of the request that waits.
  std::size_t num_unsent_ = 0;
  std::thread thread_;
};

// --- The rank's thread -------------------------------------------------------------------------

void AsioLine::open() {
  connect_until_s_ = monotonic_seconds() + options_.connect_timeout_s;
  asio::post(context_, [this] {
    try_to_connect();
    tick();
  });
  thread_ = std::thread([this] {
    const auto work = asio::make_work_guard(context_);
    context_.run();
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ != State::connecting; });
  if (state_ == State::connected) return;
  const std::string place = options_.host + ":" + std::to_string(options_.port);
  if (state_ == State::refused) {
    throw Error(
        ExitCode::backend_failed, "E1005",
        fmt::format("the rendezvous at {} refuses rank {}: {}", place, options_.rank, state_text_),
        "start all ranks with one launcher, and with the same SHARDSIM_TOKEN");
  }
  throw Error(ExitCode::backend_failed, "E1006",
              fmt::format("rank {} cannot reach the rendezvous at {} within {:.3g} s: {}",
                          options_.rank, place, options_.connect_timeout_s, state_text_),
              "check that the process that serves it (the launcher, else rank 0) runs, and that "
              "SHARDSIM_RENDEZVOUS names it");
}

StoreReply AsioLine::ask(StoreRequest request) {
  std::unique_lock lock(mutex_);
  request.id = ++asked_;
  reply_.reset();
  lock.unlock();
  post(request);
  lock.lock();
  // The other thread wakes this one: with the answer, or when the server is lost.
  changed_.wait(lock, [this] { return reply_ || reason_; });
  if (!reply_) reason_->raise();
  if (reply_->failure) reply_->failure->raise();
  return std::move(*reply_);
}

bool AsioLine::offer(const RendezvousMessage& message) {
  std::string frame = encode_message(message);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return num_unsent_ < kMostUnsentByRank || reason_; });
    if (reason_) return false;
  }
  asio::post(context_, [this, frame = std::move(frame)]() mutable { write(std::move(frame)); });
  return true;
}

void AsioLine::end() {
  post(End{});
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ == State::ended || reason_; });
  if (state_ != State::ended) reason_->raise();
}

void AsioLine::wait_until_given_up() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reason_.has_value(); });
}

// --- The client's thread -----------------------------------------------------------------------

void AsioLine::change_state(State state, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    state_ = state;
    state_text_ = text;
  }
  changed_.notify_all();
}

void AsioLine::try_to_connect() {
  resolver_.async_resolve(options_.host, std::to_string(options_.port),
                          [this](const Failed& unknown, const tcp::resolver::results_type& found) {
                            if (state_ != State::connecting) return;
                            if (unknown) return fail_to_connect(unknown.message());
                            asio::async_connect(socket_, found,
                                                [this](const Failed& failed, const tcp::endpoint&) {
                                                  if (state_ != State::connecting) return;
                                                  if (failed)
                                                    return fail_to_connect(failed.message());
                                                  greet();
                                                });
                          });
}

void AsioLine::fail_to_connect(const std::string& why) {
  last_problem_ = why;
  Failed ignored;
  socket_.close(ignored);
  decoder_ = FrameDecoder();
  unsent_.clear();
  retry_.expires_after(duration(kRetrySeconds));
  retry_.async_wait([this](const Failed& failed) {
    if (!failed && state_ == State::connecting) try_to_connect();
  });
}

void AsioLine::greet() {
  Failed ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  last_heard_s_ = monotonic_seconds();
  const std::string host = asio::ip::host_name(ignored);
  send(Hello{.token = options_.token,
             .rank = options_.rank,
             .world_size = options_.world_size,
             .pid = getpid(),
             .host = host.empty() ? "unknown" : host});
  read();
}

void AsioLine::read() {
  socket_.async_read_some(asio::buffer(bytes_),
                          [this](const Failed& failed, std::size_t num_bytes) {
                            if (state_ == State::refused || state_ == State::ended) return;
                            if (!failed) return take(num_bytes);
                            if (state_ == State::connecting) {
                              if (failed != asio::error::operation_aborted)
                                fail_to_connect(failed.message());
                            } else {
                              lose("has closed the connection");
                            }
                          });
}

void AsioLine::take(std::size_t num_bytes) {
  last_heard_s_ = monotonic_seconds();
  decoder_.feed({bytes_.data(), num_bytes});
  while (std::optional<Frame> frame = decoder_.next()) {
    std::optional<RendezvousMessage> message = decode_message(*frame);
    if (!message) return lose("sends an invalid message");
    hear(std::move(*message));
  }
  if (decoder_.broken()) return lose("sends an invalid frame");
  read();
}

void AsioLine::hear(RendezvousMessage&& message) {
  if (std::holds_alternative<Welcome>(message)) {
    change_state(State::connected, "");
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    change_state(State::refused, refused->reason);
  } else if (auto* reply = std::get_if<StoreReply>(&message)) {
    {
      const std::lock_guard lock(mutex_);
      if (reply->id == asked_) reply_ = std::move(*reply);
    }
    changed_.notify_all();
  } else if (auto* abort = std::get_if<Abort>(&message)) {
    send(FlightNote{flight()});
    give_up(std::move(abort->failure));
  } else if (std::holds_alternative<End>(message)) {
    change_state(State::ended, "");
  }
}

void AsioLine::write(std::string frame) {
  if (!socket_.is_open()) return;
  {
    const std::lock_guard lock(mutex_);
    num_unsent_ += frame.size();
  }
  unsent_.push_back(std::move(frame));
  if (unsent_.size() == 1) write_next();
}

void AsioLine::write_next() {
  asio::async_write(socket_, asio::buffer(unsent_.front()),
                    [this](const Failed& failed, std::size_t) {
                      if (failed) return;  // Reading tells, too, and what came before it.
                      {
                        const std::lock_guard lock(mutex_);
                        num_unsent_ -= unsent_.front().size();
                      }
                      changed_.notify_all();
                      unsent_.pop_front();
                      if (!unsent_.empty()) return write_next();
                      if (leaving_) context_.stop();
                    });
}

void AsioLine::tick() {
  const double now = monotonic_seconds();
  if (state_ == State::connecting && now > connect_until_s_) {
    change_state(State::ended, last_problem_);
    Failed ignored;
    socket_.close(ignored);
  } else if (state_ == State::connected && !given_up_) {
    if (now - last_heard_s_ > options_.deadline_s) {
      lose(fmt::format("has been silent for {:.3g} s", options_.deadline_s));
    } else {
      Beat beat;
      if (options_.recorder != nullptr) {
        beat = {options_.recorder->last_posted(), options_.recorder->last_ended()};
      }
      send(beat);
    }
  }
  if (given_up_ && !resorted_ && now - given_up_s_ > options_.last_resort_after_s) {
    resorted_ = true;
    if (!options_.last_resort) end_process();
    options_.last_resort();
  }
  beat_.expires_after(duration(beat_s_));
  beat_.async_wait([this](const Failed& failed) {
    if (!failed) tick();
  });
}

void AsioLine::lose(const std::string& how) {
  give_up({.exit_code = ExitCode::backend_failed,
           .code = "E1007",
           .message = fmt::format("rank {} has lost the rendezvous at {}:{}, which {}",
                                  options_.rank, options_.host, options_.port, how),
           .fix = "the process that served it has ended or hangs: look at its output (the "
                  "launcher's, else rank 0's)"});
}

void AsioLine::give_up(RunFailure reason) {
  {
    const std::lock_guard lock(mutex_);
    if (reason_ || state_ != State::connected) return;
    reason_ = std::move(reason);
  }
  given_up_s_ = monotonic_seconds();
  given_up_ = true;
  changed_.notify_all();
}

// A flight record may still be on its way.
void AsioLine::leave() {
  leaving_ = true;
  if (unsent_.empty() || state_ != State::connected) return context_.stop();
  retry_.expires_after(std::chrono::seconds(1));
  retry_.async_wait([this](const Failed&) { context_.stop(); });
}

}  // namespace

std::unique_ptr<RendezvousLine> open_rendezvous_line(RendezvousClientOptions options) {
  auto line = std::make_unique<AsioLine>(std::move(options));
  line->open();
  return line;
}

}  // namespace shardsim
