#include "backends/rendezvous/key_store.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

namespace shardsim {

namespace {

// Far above what a run stores: addresses and hashes.
constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

StoreReply failed(std::int64_t id, ExitCode exit_code, const char* code, std::string message,
                  std::string fix) {
  return {.id = id,
          .failure = RunFailure{.exit_code = exit_code,
                                .code = code,
                                .message = std::move(message),
                                .fix = std::move(fix)}};
}

StoreReply wrong(std::int64_t id, std::string message) {
  return failed(id, ExitCode::internal, "E1011", std::move(message), "");
}

StoreReply full(std::int64_t id) {
  return failed(
      id, ExitCode::does_not_fit, "E1011",
      fmt::format("the rendezvous holds {} MiB of values, and no more", kMostBytes >> 20U),
      "store addresses and hashes only; send data as messages");
}

}  // namespace

std::vector<KeyStore::Answer> KeyStore::ask(int rank, const StoreRequest& request, double now) {
  switch (request.kind) {
    case StoreRequest::Kind::set:
      return set(rank, request);
    case StoreRequest::Kind::add:
      return add(rank, request);
    case StoreRequest::Kind::barrier:
      return arrive(rank, request, now);
    case StoreRequest::Kind::get:
      break;
  }
  const auto found = values_.find(request.key);
  if (found != values_.end()) {
    return {{rank, {.id = request.id, .value = found->second}}};
  }
  getting_[request.key].push_back({rank, request.id, now + request.timeout_s, request.timeout_s});
  return {};
}

bool KeyStore::store(const std::string& key, const std::string& value) {
  const auto found = values_.find(key);
  const std::size_t freed = found == values_.end() ? 0 : found->first.size() + found->second.size();
  const std::size_t bytes = num_bytes_ - freed + key.size() + value.size();
  if (bytes > kMostBytes) return false;
  num_bytes_ = bytes;
  values_[key] = value;
  return true;
}

std::vector<KeyStore::Answer> KeyStore::set(int rank, const StoreRequest& request) {
  if (!store(request.key, request.value)) return {{rank, full(request.id)}};
  std::vector<Answer> answers = {{rank, {.id = request.id}}};
  for (const Waiting& waiting : getting_[request.key]) {
    answers.push_back({waiting.rank, {.id = waiting.id, .value = request.value}});
  }
  getting_.erase(request.key);
  return answers;
}

std::vector<KeyStore::Answer> KeyStore::add(int rank, const StoreRequest& request) {
  std::int64_t sum = 0;
  const auto found = values_.find(request.key);
  if (found != values_.end()) {
    const auto number = parse_number<std::int64_t>(found->second);
    if (!number) {
      return {{rank, wrong(request.id, "key \"" + request.key + "\" holds no number to add to")}};
    }
    sum = *number;
  }
  if (__builtin_add_overflow(sum, request.delta, &sum)) {
    return {{rank, wrong(request.id, "adding to key \"" + request.key + "\" leaves 64 bits")}};
  }
  StoreRequest stored = request;
  stored.value = std::to_string(sum);
  std::vector<Answer> answers = set(rank, stored);
  answers.front().reply.number = sum;
  return answers;
}

std::vector<KeyStore::Answer> KeyStore::arrive(int rank, const StoreRequest& request, double now) {
  std::vector<Waiting>& waiting = barriers_[request.key];
  const bool again = std::any_of(waiting.begin(), waiting.end(),
                                 [rank](const Waiting& each) { return each.rank == rank; });
  if (again) {
    return {
        {rank, wrong(request.id, "this rank waits in barrier \"" + request.key + "\" already")}};
  }
  waiting.push_back({rank, request.id, now + request.timeout_s, request.timeout_s});
  if (static_cast<int>(waiting.size()) < world_size_) return {};
  std::vector<Answer> answers;
  for (const Waiting& each : waiting) {
    answers.push_back({each.rank, {.id = each.id}});
  }
  barriers_.erase(request.key);
  return answers;
}

std::vector<int> KeyStore::all_but(const std::set<int>& present) const {
  std::vector<int> absent;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (present.count(rank) == 0) absent.push_back(rank);
  }
  return absent;
}

std::vector<int> KeyStore::absent_from(const std::vector<Waiting>& waiting) const {
  std::set<int> there;
  for (const Waiting& each : waiting) there.insert(each.rank);
  return all_but(there);
}

std::vector<KeyStore::Gathering> KeyStore::gatherings() const {
  std::vector<Gathering> found;
  for (const auto& [name, waiting] : barriers_) {
    if (waiting.empty()) continue;
    const Waiting& first = waiting.front();
    found.push_back({name, first.until_s - first.timeout_s, absent_from(waiting)});
  }
  return found;
}

std::vector<KeyStore::Answer> KeyStore::expire(double now, const std::set<int>& present) {
  std::vector<Answer> answers;
  const auto expire_in = [&](auto& lists, const auto& explain) {
    for (auto& [key, waiting] : lists) {
      // All who wait too long hear the same, so who is missing is asked before anyone leaves.
      const auto late = [now](const Waiting& each) { return each.until_s <= now; };
      if (std::none_of(waiting.begin(), waiting.end(), late)) continue;
      for (const Waiting& each : waiting) {
        if (late(each)) answers.push_back({each.rank, explain(key, waiting, each)});
      }
      std::erase_if(waiting, late);
    }
    std::erase_if(lists, [](const auto& entry) { return entry.second.empty(); });
  };
  expire_in(getting_, [&](const std::string& key, const auto&, const Waiting& each) {
    const std::vector<int> absent = all_but(present);
    std::string message =
        fmt::format("no rank has set key \"{}\" within {:.3g} s", key, each.timeout_s);
    if (!absent.empty()) message += "; not there: ranks " + format_ranks(absent);
    return failed(each.id, ExitCode::communication, "E1008", message,
                  "check the other ranks: one of them did not get as far as setting it");
  });
  expire_in(barriers_, [&](const std::string& name, const auto& waiting, const Waiting& each) {
    return failed(each.id, ExitCode::communication, "E1009",
                  fmt::format("barrier \"{}\": ranks {} of {} did not arrive within {:.3g} s", name,
                              format_ranks(absent_from(waiting)), world_size_, each.timeout_s),
                  "check what those ranks do");
  });
  return answers;
}

void KeyStore::forget(int rank) {
  for (auto* const lists : {&getting_, &barriers_}) {
    for (auto& [_, waiting] : *lists) {
      std::erase_if(waiting, [rank](const Waiting& each) { return each.rank == rank; });
    }
  }
}

}  // namespace shardsim
