#include "backends/fiber/fiber_watch.hpp"

#include <algorithm>
#include <cstring>
#include <set>

// Inlined: most buffers of checked programs are small, and a call would cost more than their hash.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "backends/fiber/fiber_group.hpp"

namespace shardsim {

namespace {

constexpr const char* kWait = "wait() for the work before the buffer is used again";

std::uint64_t hash_of(const Tensor& tensor) {
  return XXH3_64bits(tensor.wire_data(), static_cast<std::size_t>(tensor.num_bytes()));
}

// All ones: a NaN in every type of floating point, -1 in integers. A reader recognizes it.
constexpr std::byte kPattern{0xFF};

bool holds_pattern(const Tensor& tensor) {
  const std::byte* const data = tensor.wire_data();
  const auto bytes = static_cast<std::size_t>(tensor.num_bytes());
  // Each byte is like the next: far cheaper than a hash, and most of what is watched are outputs.
  return data[0] == kPattern && std::memcmp(data, data + 1, bytes - 1) == 0;
}

bool overlap_in_storage(const Tensor& a, const Tensor& b) {
  return a.shares_storage(b) && a.num_bytes() > 0 && b.num_bytes() > 0 &&
         a.offset_bytes() < b.offset_bytes() + b.num_bytes() &&
         b.offset_bytes() < a.offset_bytes() + a.num_bytes();
}

// "elements 4 to 7", of the allocation.
std::string elements(const Tensor& tensor) {
  const std::int64_t width = size_of(tensor.dtype());
  const std::int64_t first = tensor.offset_bytes() / width;
  return "elements " + std::to_string(first) + " to " +
         std::to_string(first + std::max<std::int64_t>(tensor.numel(), 1) - 1);
}

}  // namespace

// --- Buffers: posting --------------------------------------------------------------------------

BufferWatch::BufferWatch(Engine& engine, Variation variation)
    : engine_(engine),
      outer_(std::exchange(access_listener(), this)),
      uses_(static_cast<std::size_t>(engine.num_ranks())),
      variation_(variation) {}

BufferWatch::~BufferWatch() {
  for (const Uses& uses : uses_) {
    for (const Use& use : uses) use.tensor.mark(false);
  }
  access_listener() = outer_;
}

void BufferWatch::posted(const Post& post, const Tensor& output, const Tensor& input,
                         std::int64_t own_chunk) {
  const bool in_place = output.defined() && input.defined() && output.shares_storage(input) &&
                        output.offset_bytes() == input.offset_bytes() &&
                        output.num_bytes() == input.num_bytes();
  if (in_place) return add(post, output, /*reads=*/true, /*writes=*/true);
  if (output.defined() && input.defined() && overlap_in_storage(output, input)) {
    const bool gathers = output.num_bytes() > input.num_bytes();
    const Tensor& full = gathers ? output : input;
    const Tensor& chunk = gathers ? input : output;
    const std::int64_t begin = full.offset_bytes() + own_chunk * size_of(full.dtype());
    if (own_chunk == kNowhere || chunk.offset_bytes() != begin) {
      report("BUF_OVERLAP", {post, 0, chunk},
             "gives " + elements(input) + " as input and " + elements(output) + " as output of",
             post.record.site,
             own_chunk == kNowhere
                 ? "input and output of this call must not overlap"
                 : "in place, a member's chunk lies at its rank times the chunk's "
                   "size in the full buffer");
      return;
    }
    // One covers the other: who looks at the larger sees both.
    return add(post, full, /*reads=*/true, /*writes=*/true);
  }
  if (input.defined()) add(post, input, /*reads=*/true, /*writes=*/false);
  if (output.defined()) add(post, output, /*reads=*/false, /*writes=*/true);
}

void BufferWatch::add(const Post& post, const Tensor& tensor, bool reads, bool writes) {
  if (tensor.num_bytes() == 0) return;
  Uses& uses = uses_[static_cast<std::size_t>(post.rank)];
  Use use{post, num_uses_++, tensor, reads, writes};
  bool alone = true;
  for (Use& other : uses) {
    if (!overlap_in_storage(other.tensor, tensor) || other.operation == post.operation) continue;
    if (!other.writes && !writes) continue;
    alone = false;
    if (behind(uses, use, other)) {
      stop_hiding(other);
      continue;
    }
    report("BUF_OVERLAP", other,
           "gives " + elements(tensor) + " to " + post.record.describe() + " while they belong to",
           post.record.site, "wait() for the first work, or start the second one `after` it");
    return;
  }
  if (alone) {
    const bool varied = use.order < variation_.number;
    if (varied) use.looks = content_of(use);
    if (writes && (!varied || use.looks != nullptr)) {
      hide(use, reads || !post.fills_all);
    } else {
      use.holds = Holds::hash;
      use.hash = hash_of(tensor);
    }
    if (writes && use.order + 1 == variation_.number) {
      last_varied_ =
          diagnose("BUF_READ_EARLY", use, "reads " + elements(tensor) + " of a buffer in flight of",
                   post.record.site, kWait);
    }
  }
  tensor.mark(true);
  uses.push_back(std::move(use));
}

// Whether `later` starts when `earlier` has ended: on the same stream, or by `after`, or behind
// another that does.
bool BufferWatch::behind(const Uses& uses, const Use& later, const Use& earlier) const {
  // Parts of a batch wait for nothing of each other.
  if (earlier.order >= later.order || earlier.handle == later.handle) return false;
  if (later.stream != nullptr && later.stream == earlier.stream) return true;
  if (later.after != nullptr && later.after == earlier.handle) return true;
  return std::any_of(uses.begin(), uses.end(), [&](const Use& between) {
    if (between.order >= later.order || between.order <= earlier.order) return false;
    const bool follows = (later.stream != nullptr && later.stream == between.stream) ||
                         (later.after != nullptr && later.after == between.handle);
    return follows && behind(uses, between, earlier);
  });
}

// --- Buffers: hiding ---------------------------------------------------------------------------

void BufferWatch::hide(Use& use, bool keeps) {
  std::byte* const data = use.tensor.wire_data();
  const auto bytes = static_cast<std::size_t>(use.tensor.num_bytes());
  if (keeps) {
    if (use.kept.empty() && !spare_.empty()) {
      use.kept = std::move(spare_.back());
      spare_.pop_back();
    }
    use.kept.assign(data, data + bytes);
  }
  use.hidden = true;
  if (use.looks != nullptr) {
    std::memcpy(data, use.looks->data(), bytes);
    use.holds = Holds::hash;
    use.hash = hash_of(use.tensor);
  } else {
    std::memset(data, std::to_integer<int>(kPattern), bytes);
    use.holds = Holds::pattern;
  }
}

// Its content at the end of another run, if that came so far; null: unknown.
const std::vector<std::byte>* BufferWatch::content_of(const Use& use) const {
  const auto number = static_cast<std::size_t>(use.order);
  if (variation_.from == nullptr || number >= variation_.from->size()) return nullptr;
  const std::vector<std::byte>& content = (*variation_.from)[number];
  const bool fits = static_cast<std::int64_t>(content.size()) == use.tensor.num_bytes();
  return fits ? &content : nullptr;
}

void BufferWatch::write_down(const Use& use) {
  // Larger programs show their own content in what comes later.
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 28;
  written_ += use.tensor.num_bytes();
  if (written_ > kMostBytes) return;
  const auto number = static_cast<std::size_t>(use.order);
  if (variation_.to->size() <= number) variation_.to->resize(number + 1);
  const std::byte* const data = use.tensor.wire_data();
  (*variation_.to)[number].assign(data, data + use.tensor.num_bytes());
}

// Puts back what it has kept.
void BufferWatch::reveal(Use& use) {
  if (!use.kept.empty()) {
    std::memcpy(use.tensor.wire_data(), use.kept.data(), use.kept.size());
    spare_.push_back(std::move(use.kept));
    use.kept.clear();
  }
}

// Another call is to find there what this one leaves.
void BufferWatch::stop_hiding(Use& use) {
  if (!use.hidden) return;
  use.hidden = false;
  if (use.kept.empty()) return;  // Nothing is there yet.
  verify(use);
  reveal(use);
  use.holds = Holds::hash;
  use.hash = hash_of(use.tensor);
}

// --- Buffers: moving ---------------------------------------------------------------------------

void BufferWatch::moving(const FiberOperation& operation, std::span<const int> ranks) {
  for (const int rank : ranks) {
    Uses& uses = uses_[static_cast<std::size_t>(rank)];
    for (Use& mine : uses) {
      if (mine.operation != &operation) continue;
      // Calls before it on the same buffer have put there what it finds.
      for (const Use& use : uses) {
        if (overlap_in_storage(use.tensor, mine.tensor)) verify(use);
      }
      if (mine.hidden) reveal(mine);
    }
  }
}

void BufferWatch::moved(const FiberOperation& operation, std::span<const int> ranks) {
  for (const int rank : ranks) {
    Uses& uses = uses_[static_cast<std::size_t>(rank)];
    for (Use& use : uses) {
      if (use.operation != &operation) continue;
      if (use.hidden) {
        hide(use, true);
        continue;
      }
      use.holds = Holds::hash;
      use.hash = hash_of(use.tensor);
      if (!use.writes) continue;
      // The write over older data was legal: overlapping uses are ordered behind it.
      for (Use& other : uses) {
        if (other.operation != &operation && overlap_in_storage(other.tensor, use.tensor))
          other.holds = Holds::anything;
      }
    }
  }
}

void BufferWatch::waited(int rank, const FiberOperation& handle) {
  Uses& uses = uses_[static_cast<std::size_t>(rank)];
  const auto is_of = [&](const Use& use) { return use.handle == &handle; };
  for (Use& use : uses) {
    if (!is_of(use)) continue;
    verify(use);
    if (use.hidden) reveal(use);
    if (variation_.to != nullptr && use.writes) write_down(use);
    const auto holders = std::count_if(uses.begin(), uses.end(), [&](const Use& other) {
      return other.tensor.shares_storage(use.tensor);
    });
    if (use.tensor.num_holders() > holders) continue;
    report("BUF_FREED", use, "has freed " + elements(use.tensor) + " of a buffer of",
           use.record.site, "keep the tensor until the work has been waited for");
  }
  for (const Use& use : uses) {
    if (!is_of(use)) continue;
    use.tensor.mark(false);
    // Those behind it find what it has left there.
    for (Use& other : uses) {
      if (other.holds != Holds::anything || !overlap_in_storage(other.tensor, use.tensor)) continue;
      other.holds = Holds::hash;
      other.hash = hash_of(other.tensor);
    }
  }
  std::erase_if(uses, is_of);
  for (const Use& use : uses) use.tensor.mark(true);  // Others may use the same allocation.
}

// --- Buffers: finding --------------------------------------------------------------------------

void BufferWatch::verify(const Use& use) {
  const bool sound =
      use.holds == Holds::anything ||
      (use.holds == Holds::pattern ? holds_pattern(use.tensor) : hash_of(use.tensor) == use.hash);
  if (sound) return;
  report("BUF_WRITE", use, "has written to " + elements(use.tensor) + " of a buffer in flight of",
         use.touched.value_or(use.record.site), kWait);
}

void BufferWatch::touched(const Tensor& part, Access access, CallSite site) {
  for (Uses& uses : uses_) {
    for (Use& use : uses) {
      if (!overlap_in_storage(use.tensor, part)) continue;
      if (access == Access::any) {
        if (!use.touched) use.touched = site;
        continue;
      }
      const bool writes = access == Access::write;
      if (!use.writes && !writes) continue;  // That an input is looked at does no harm.
      report(writes ? "BUF_WRITE" : "BUF_READ_EARLY", use,
             (writes ? "writes to " : "reads ") + elements(part) + " of a buffer in flight of",
             site, kWait);
      return;
    }
  }
}

void BufferWatch::report(const char* code, const Use& use, const std::string& what, CallSite site,
                         const char* hint) {
  if (engine_.cancelling()) return;
  engine_.fail(diagnose(code, use, what, site, hint), use.rank);
}

Diagnosis BufferWatch::diagnose(const char* code, const Use& use, const std::string& what,
                                CallSite site, const char* hint) const {
  const int rank = use.rank;
  const std::string call = use.record.describe();
  return {.code = code,
          .summary = "rank " + std::to_string(rank) + " " + what + " " + call,
          .group = *use.group,
          .members = {rank},
          .time = engine_.rank(rank).now(),
          .sides = {{.ranks = {rank}, .action = what + " " + call, .site = site},
                    {.ranks = {rank},
                     .action = "called " + call + ", not waited for",
                     .site = use.record.site}},
          .hint = hint};
}

// --- Orders ------------------------------------------------------------------------------------

void OrderWatch::posted(int rank, const FiberOperation& operation, CallSite site,
                        const FiberOperation* after, Time now) {
  std::vector<UnderWay>& mine = under_way_[static_cast<std::size_t>(rank)];
  const UnderWay posted{&operation, {operation.group()->id(), operation.sequence()}, site};
  for (const UnderWay& other : mine) {
    if (other.name.first == posted.name.first || other.operation == after) continue;
    compare(rank, other, posted, now);
  }
  mine.push_back(posted);
}

void OrderWatch::waited(int rank, const FiberOperation& operation) {
  std::vector<UnderWay>& mine = under_way_[static_cast<std::size_t>(rank)];
  std::erase_if(mine, [&](const UnderWay& other) { return other.operation == &operation; });
}

void OrderWatch::compare(int rank, const UnderWay& first, const UnderWay& second, Time now) {
  const bool in_order = first.name < second.name;
  const UnderWay& lower = in_order ? first : second;
  const UnderWay& higher = in_order ? second : first;
  const Seen fresh{
      .lower = lower.operation->group(), .higher = higher.operation->group(), .time = now};
  Seen& seen = seen_.try_emplace({lower.name, higher.name}, fresh).first->second;
  Side& side = in_order ? seen.in_order : seen.reversed;
  if (side.ranks.empty()) side.second = second.site;
  side.ranks.push_back(rank);
}

std::vector<Diagnosis> OrderWatch::warnings() const {
  std::vector<Diagnosis> found;
  std::set<std::pair<std::uint64_t, std::uint64_t>> warned;  // Pairs of groups.
  for (const auto& [key, seen] : seen_) {
    if (seen.in_order.ranks.empty() || seen.reversed.ranks.empty()) continue;
    if (!warned.emplace(key.first.first, key.second.first).second) continue;
    found.push_back(warning(key.first.second, seen));
  }
  return found;
}

Diagnosis OrderWatch::warning(std::int64_t sequence, const Seen& seen) {
  Diagnosis diagnosis = seen.lower->report("NCCL_UNSAFE");
  diagnosis.sequence = sequence;
  diagnosis.time = seen.time;
  const auto add_side = [&](const Side& side, const FiberGroup& one, const FiberGroup& other) {
    diagnosis.sides.push_back({.ranks = ascending(side.ranks),
                               .action = "posts to " + one.name() + ", then to " + other.name(),
                               .site = side.second});
  };
  add_side(seen.in_order, *seen.lower, *seen.higher);
  add_side(seen.reversed, *seen.higher, *seen.lower);
  std::stable_sort(diagnosis.sides.begin(), diagnosis.sides.end(),
                   [](const DiagnosisSide& a, const DiagnosisSide& b) {
                     return a.ranks.size() < b.ranks.size();
                   });
  diagnosis.summary = "ranks " + format_ranks(diagnosis.sides[0].ranks) + " and " +
                      format_ranks(diagnosis.sides[1].ranks) + " have operations of groups " +
                      seen.lower->name() + " and " + seen.higher->name() +
                      " under way at once, posted in different orders";
  diagnosis.hint =
      "legal here; NCCL may hang: post to different communicators in one order on all ranks, or "
      "wait in between";
  return diagnosis;
}

}  // namespace shardsim
