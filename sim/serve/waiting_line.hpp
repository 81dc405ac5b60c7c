#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

// Requests that wait for a worker, in the order in which they came. A page asks again while it
// still waits, when its user moves a slider: only the newest request of a page is worth an answer.
namespace shardsim {

template <class Request>
class WaitingLine {
 public:
  struct Joined {
    bool is_full = false;             ///< It was not taken.
    std::optional<Request> replaced;  ///< An older one of the same page.
  };

  explicit WaitingLine(std::size_t most) : most_(most) {}

  /// `page`: empty for a client that is no page, which replaces nothing.
  [[nodiscard]] Joined join(const std::string& page, Request request) {
    for (auto& [name, waiting] : line_) {
      if (page.empty() || name != page) continue;
      std::swap(waiting, request);  // It keeps the older one's place.
      return {.replaced = std::move(request)};
    }
    if (line_.size() == most_) return {.is_full = true, .replaced = {}};
    line_.emplace_back(page, std::move(request));
    return {};
  }

  /// The one that came first.
  [[nodiscard]] std::optional<Request> next() {
    if (line_.empty()) return std::nullopt;
    std::optional<Request> first = std::move(line_.front().second);
    line_.pop_front();
    return first;
  }

  /// Drops those that nobody waits for any more: they must not keep others out.
  template <class IsOver>
  void drop(const IsOver& is_over) {
    std::erase_if(line_, [&is_over](const auto& waiting) { return is_over(waiting.second); });
  }

  [[nodiscard]] std::size_t size() const { return line_.size(); }

 private:
  std::size_t most_;
  std::deque<std::pair<std::string, Request>> line_;
};

}  // namespace shardsim
