#include "sim/serve/gate.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "backends/rendezvous/launch_environment.hpp"

namespace shardsim {

namespace {

constexpr std::array kRoutes = {
    Route{"GET", "", Door::at_once},          Route{"GET", "serve.js", Door::at_once},
    Route{"GET", "serve.css", Door::at_once}, Route{"GET", "presets", Door::at_once},
    Route{"POST", "run", Door::work},         Route{"POST", "show", Door::work},
    Route{"POST", "plan", Door::stream},
};

constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kWrongMethod = 405;
constexpr int kNoLength = 411;
constexpr int kNotJson = 415;

bool is_json(std::string_view type) {
  constexpr std::string_view kJson = "application/json";
  return type.substr(0, type.find(';')) == kJson;
}

}  // namespace

Gate::Gate(const std::string& address, bool is_loopback, int port, std::string token)
    : hosts_{fmt::format("{}:{}", address, port)}, token_(std::move(token)) {
  if (is_loopback) hosts_.push_back(fmt::format("localhost:{}", port));
}

std::string Gate::url() const {
  return fmt::format("http://{}/{}", hosts_.front(), token_.empty() ? "" : token_ + "/");
}

bool Gate::is_own_host(std::string_view host) const {
  return std::ranges::find(hosts_, host) != hosts_.end();
}

bool Gate::is_own_origin(std::string_view origin, std::string_view host) const {
  constexpr std::string_view kScheme = "http://";
  return origin.starts_with(kScheme) && origin.substr(kScheme.size()) == host;
}

std::optional<std::string_view> Gate::behind_token(std::string_view target) const {
  if (!target.starts_with('/')) return std::nullopt;
  target.remove_prefix(1);
  if (token_.empty()) return target;
  const std::size_t slash = target.find('/');
  if (slash == std::string_view::npos || !same_token(target.substr(0, slash), token_)) {
    return std::nullopt;
  }
  return target.substr(slash + 1);
}

Admission Gate::admit(const RequestHead& head) const {
  if (head.hosts.size() != 1 || !is_own_host(head.hosts.front())) return {.refusal = kForbidden};
  if (head.origins.size() > 1) return {.refusal = kForbidden};
  if (!head.origins.empty() && !is_own_origin(head.origins.front(), head.hosts.front())) {
    return {.refusal = kForbidden};
  }
  const std::optional<std::string_view> name = behind_token(head.target);
  if (!name) return {.refusal = kForbidden};
  const auto* const route = std::ranges::find(kRoutes, *name, &Route::name);
  if (route == kRoutes.end()) return {.refusal = kNotFound};
  if (head.method != route->method) return {.refusal = kWrongMethod};
  // Two programs that disagree about where a body ends see two different requests.
  if (head.is_chunked) return {.refusal = kNoLength};
  if (route->method == "POST" &&
      (head.content_types.size() != 1 || !is_json(head.content_types.front()))) {
    return {.refusal = kNotJson};
  }
  return {.route = route};
}

}  // namespace shardsim
