#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "sim/serve/serve_limits.hpp"

// `shardsim serve`: a page on which layouts are tried.
namespace shardsim {

struct ServeOptions {
  std::string address = "127.0.0.1";
  int port = 8642;  ///< 0: a free one.
  bool has_token = true;
  std::string folder;  ///< Where scenarios may read files; empty: nowhere.
  int jobs = 1;        ///< Simulations at a time.
  ServeLimits limits;
};

/// Prints the page's URL to `out`, warnings to `err`, and serves until `is_over`. Throws
/// UsageError: E1410 for no token beyond loopback, E1414 for no such folder, and those of
/// HttpServer.
void serve(const ServeOptions& options, const std::function<bool()>& is_over, std::ostream& out,
           std::ostream& err);

}  // namespace shardsim
