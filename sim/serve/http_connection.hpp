#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "sim/serve/http_work.hpp"

// One client. Private to the server: it names Boost's types.
namespace shardsim {

/// The server, as its connections see it. All on their thread.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  [[nodiscard]] virtual const Gate& gate() const = 0;
  [[nodiscard]] virtual const ServeLimits& limits() const = 0;
  [[nodiscard]] virtual const HttpServices& services() const = 0;
  /// Takes the work for a worker, or answers it at once.
  virtual void take(HeldWork work) = 0;
  virtual void closed(int id) = 0;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(int id, boost::asio::ip::tcp::socket socket, ConnectionOwner& owner);

  void start() { read_head(); }
  /// At once; its work ends.
  void close(WorkEnd why);
  /// Whether it has not yet shown the token.
  [[nodiscard]] bool is_stranger() const { return is_stranger_; }

 private:
  using Failed = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void read_head();
  void on_head(Failed error);
  void on_body(Failed error, const Route* route);
  void do_work(const Route* route);
  void answer(const HttpAnswer& answer, bool keeps);
  void refuse(int status);
  void drain(std::size_t left);
  // While a worker is busy, only the end of the connection can come.
  void watch();
  void start_timer(int seconds);
  void begin_stream();
  void queue_bytes(std::string bytes);
  void write_next();

  int id_;
  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer timer_;  // Ends the work.
  ConnectionOwner& owner_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HeldWork work_;
  bool is_stranger_ = true;
  bool is_closed_ = false;
  // A stream's bytes that are not sent, and whether no more will come.
  std::deque<std::string> unsent_;
  std::size_t num_unsent_ = 0;
  bool is_writing_ = false;
  bool is_last_ = false;
};

}  // namespace shardsim
