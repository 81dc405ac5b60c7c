#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sim/serve/answer.hpp"
#include "sim/serve/gate.hpp"
#include "sim/serve/plan_stream.hpp"
#include "sim/serve/serve_limits.hpp"

// HTTP/1.1 for few clients: one thread for all connections, and workers that simulate. It knows
// nothing of simulations.
//
// Long work and short work have a line each. One worker more than there are jobs is kept for short
// work, so that no client waits for another's search, or for its large run.
namespace shardsim {

struct HttpRequest {
  const Route* route = nullptr;
  std::string page;  ///< The header "Shardsim-Page": which page asks; may be empty.
  std::string body;
};

/// The work behind the routes. `work` and `stream` are called by workers, many at a time. A stream
/// is long work.
struct HttpServices {
  std::function<HttpAnswer(const HttpRequest& request)> at_once;  ///< For Door::at_once.
  /// Nothing if it is long and may not be: it is asked again among long work.
  std::function<std::optional<HttpAnswer>(const HttpRequest& request, bool may_be_long,
                                          const AskEnd& end)>
      work;
  std::function<void(const HttpRequest& request, const AskEnd& end, const SendEvent& send)> stream;
};

struct HttpOptions {
  std::string address;  ///< Numeric: "127.0.0.1".
  int port = 0;         ///< 0: a free one.
  std::string token;    ///< Empty: none.
  int jobs = 1;         ///< Long work at once.
  ServeLimits limits;
};

class HttpServer {
 public:
  /// Listens. Throws UsageError: E1412 for what is no address, or stands for all of a machine, and
  /// E1413 if it cannot listen there.
  HttpServer(HttpOptions options, HttpServices services);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::string url() const;
  [[nodiscard]] bool is_loopback() const;

  /// Serves until `is_over` says so; it is asked a few times a second. Then all work is ended.
  void run(const std::function<bool()>& is_over);

 private:
  class Service;
  std::shared_ptr<Service> service_;
};

}  // namespace shardsim
