#include "sim/serve/http_server.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <fmt/format.h>

#include "sim/serve/http_connection.hpp"
#include "sim/serve/waiting_line.hpp"

namespace shardsim {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
constexpr auto kTick = std::chrono::milliseconds(100);

tcp::endpoint endpoint_of(const HttpOptions& options) {
  ErrorCode error;
  const asio::ip::address address = asio::ip::make_address(options.address, error);
  if (error || address.is_unspecified() || address.is_multicast()) {
    throw UsageError("E1412", "\"" + options.address + "\" is not the address of one interface",
                     "give a number, such as 127.0.0.1 or 192.168.1.5: the header Host of a "
                     "request must name it");
  }
  return {address, static_cast<asio::ip::port_type>(options.port)};
}

std::string url_address(const asio::ip::address& address) {
  return address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
}

}  // namespace

class HttpServer::Service : public ConnectionOwner {
 public:
  Service(HttpOptions options, HttpServices services)
      : options_(std::move(options)),
        services_(std::move(services)),
        short_line_(options_.limits.max_waiting),
        long_line_(options_.limits.max_waiting),
        pool_(static_cast<std::size_t>(options_.jobs) + 1) {
    listen(endpoint_of(options_));
  }

  [[nodiscard]] const Gate& gate() const override { return *gate_; }
  [[nodiscard]] const ServeLimits& limits() const override { return options_.limits; }
  [[nodiscard]] const HttpServices& services() const override { return services_; }
  [[nodiscard]] bool is_loopback() const {
    return acceptor_.local_endpoint().address().is_loopback();
  }

  void closed(int id) override { connections_.erase(id); }

  void take(HeldWork work) override {  // A copy: an answer makes its connection drop it.
    join(work->request.route->door == Door::work ? short_line_ : long_line_, work);
    begin_next();
  }

  void run(const std::function<bool()>& is_over) {
    accept();
    tick(is_over);
    context_.run();
    pool_.join();
    context_.restart();
    context_.poll();  // The last answers, which nobody reads.
  }

 private:
  void listen(const tcp::endpoint& endpoint) {
    try {
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
    } catch (const boost::system::system_error& error) {
      throw UsageError("E1413",
                       fmt::format("cannot listen on {}, port {}: {}", options_.address,
                                   options_.port, error.code().message()),
                       "--port 0 takes a free port");
    }
    const tcp::endpoint own = acceptor_.local_endpoint();
    gate_.emplace(url_address(own.address()), own.address().is_loopback(), own.port(),
                  options_.token);
  }

  void accept() {
    acceptor_.async_accept([this](ErrorCode error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error) admit(std::move(socket));
      accept();
    });
  }

  // Clients with the token must always find a place, so the oldest without one leaves its own.
  void admit(tcp::socket socket) {
    if (connections_.size() >= options_.limits.max_connections) {
      const auto stranger = std::ranges::find_if(
          connections_, [](const auto& each) { return each.second->is_stranger(); });
      if (stranger == connections_.end()) return;
      const auto held = stranger->second;
      held->close(WorkEnd::client_gone);
    }
    ErrorCode ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const int id = next_id_++;
    const auto connection = std::make_shared<HttpConnection>(id, std::move(socket), *this);
    connections_.emplace(id, connection);
    connection->start();
  }

  void join(WaitingLine<HeldWork>& line, const HeldWork& work) {
    line.drop([](const HeldWork& waiting) { return waiting->ended() != WorkEnd::none; });
    const auto joined = line.join(work->request.page, work);
    if (joined.is_full) return work->answered(busy_answer());
    if (!joined.replaced) return;
    (*joined.replaced)->answered(ended_answer(WorkEnd::replaced, options_.limits.run_s));
  }

  void begin_next() {
    while (num_long_ < options_.jobs && begin_first(long_line_, /*is_long=*/true)) {
    }
    while (num_long_ + num_short_ <= options_.jobs && begin_first(short_line_, false)) {
    }
  }

  // False if nobody waits there.
  bool begin_first(WaitingLine<HeldWork>& line, bool is_long) {
    const std::optional<HeldWork> next = line.next();
    if (!next) return false;
    if ((*next)->ended() != WorkEnd::none) return true;
    ++(is_long ? num_long_ : num_short_);
    (*next)->begun();
    asio::post(pool_, [this, work = *next, is_long] { do_work(work, is_long); });
    return true;
  }

  // By a worker.
  void do_work(const HeldWork& work, bool is_long) {
    const AskEnd end = [work] { return work->ended(); };
    std::optional<HttpAnswer> answer = HttpAnswer{.status = kEndOfStream};
    if (work->request.route->door == Door::work) {
      answer = services_.work(work->request, is_long, end);
    } else {
      services_.stream(work->request, end, [this, work](const std::string& event) {
        asio::post(context_, [work, event] { work->sent(event); });
      });
    }
    asio::post(context_, [this, work, is_long, answer = std::move(answer)] {
      --(is_long ? num_long_ : num_short_);
      if (answer) {
        work->answered(*answer);
      } else {
        work->set_back();
        join(long_line_, work);
      }
      begin_next();
    });
  }

  void tick(const std::function<bool()>& is_over) {
    if (is_over()) return shut_down();
    timer_.expires_after(kTick);
    timer_.async_wait([this, &is_over](ErrorCode error) {
      if (!error) tick(is_over);
    });
  }

  void shut_down() {
    ErrorCode ignored;
    acceptor_.close(ignored);
    const auto all = connections_;
    for (const auto& [id, connection] : all) connection->close(WorkEnd::shut_down);
    context_.stop();
  }

  HttpOptions options_;
  HttpServices services_;
  asio::io_context context_;
  tcp::acceptor acceptor_{context_};
  asio::steady_timer timer_{context_};
  std::optional<Gate> gate_;
  std::map<int, std::shared_ptr<HttpConnection>> connections_;  // The oldest first.
  int next_id_ = 0;
  WaitingLine<HeldWork> short_line_;
  WaitingLine<HeldWork> long_line_;
  int num_short_ = 0;  // Under way, as num_long_.
  int num_long_ = 0;
  asio::thread_pool pool_;  // Last: workers end before what they use.
};

HttpServer::HttpServer(HttpOptions options, HttpServices services)
    : service_(std::make_shared<Service>(std::move(options), std::move(services))) {}

HttpServer::~HttpServer() = default;

std::string HttpServer::url() const { return service_->gate().url(); }

bool HttpServer::is_loopback() const { return service_->is_loopback(); }

void HttpServer::run(const std::function<bool()>& is_over) { service_->run(is_over); }

}  // namespace shardsim
