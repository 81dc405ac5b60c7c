#include "backends/collective_shape.hpp"

#include <algorithm>
#include <cstddef>

#include "sim/kernel/hash.hpp"

namespace shardsim {

namespace {

std::int64_t payload_chunk(const CollectiveShape& shape, int member) {
  const std::int64_t chunk = shape.chunk(0);
  const std::int64_t begin = member * chunk;
  if (!shape.padding_at.empty()) {
    return chunk - overlap(shape.padding_at, begin, begin + chunk);
  }
  // It stands at the end of the full buffer, so it is in the last chunks.
  return std::clamp<std::int64_t>(shape.count - shape.padding - begin, 0, chunk);
}

std::int64_t largest_chunk(const CollectiveShape& shape) {
  if (shape.row->reduces_to_all()) return chunk_size(shape.count, shape.size, 0);
  if (shape.counts.empty() && shape.pairs.empty()) return shape.chunk(0);
  std::int64_t largest = 0;
  for (const std::int64_t count : shape.counts) largest = std::max(largest, count);
  for (const AllToAllCounts& member : shape.pairs) {
    for (const std::int64_t count : member.send) largest = std::max(largest, count);
  }
  return largest;
}

Traffic all_to_all_traffic(const CollectiveShape& shape, int member) {
  Traffic traffic;
  const AllToAllCounts& own = shape.pairs[static_cast<std::size_t>(member)];
  for (int peer = 0; peer < shape.size; ++peer) {
    if (peer == member) continue;
    const std::int64_t sent = own.send[static_cast<std::size_t>(peer)];
    traffic.sent += sent * shape.width;
    traffic.received += own.recv[static_cast<std::size_t>(peer)] * shape.width;
    if (sent > 0) ++traffic.messages;  // Nothing for a peer: no message.
  }
  return traffic;
}

// In bytes of payload and padding, or of payload alone.
Traffic traffic_of(const CollectiveShape& shape, Algorithm algorithm, const DoubleTree* tree,
                   int member, bool payload_only) {
  const CollectiveRow& row = *shape.row;
  const std::int64_t total = shape.count - (payload_only ? shape.padding : 0);
  const auto part = [&](int index) {
    index = (index + shape.size) % shape.size;
    if (row.in_place()) return chunk_size(total, shape.size, index) * shape.width;
    return (payload_only ? payload_chunk(shape, index) : shape.chunk(index)) * shape.width;
  };
  switch (row.path) {
    case CollectivePath::ring:
      if (algorithm == Algorithm::tree) return tree->all_reduce_traffic(member, total, shape.width);
      return ring_traffic(row, shape.size, total * shape.width, part(member - 1), part(member),
                          part(member + 1));
    case CollectivePath::chain:
      return chain_traffic(row, shape.size, member, shape.root, total * shape.width);
    case CollectivePath::star:
      return star_traffic(row, shape.size, member, shape.root,
                          total * shape.width - part(shape.root), part(member));
    case CollectivePath::pairs:
      return all_to_all_traffic(shape, member);
    case CollectivePath::none:
      break;
  }
  return {};
}

void add_star(GroupLinks& links, const CollectiveShape& shape, int member, std::int64_t times) {
  const int root = shape.root;
  const bool gathers = shape.row->root == RootRole::target;
  // One message between the root and each other member.
  const auto count = [&](int other) {
    const std::int64_t elements =
        shape.padding == 0 ? shape.chunk(other) : payload_chunk(shape, other);
    const int from = gathers ? other : root;
    const int to = gathers ? root : other;
    links.add(member == from, from, to, elements * shape.width, times);
  };
  if (member != root) return count(member);
  for (int other = 0; other < shape.size; ++other) {
    if (other != root) count(other);
  }
}

void add_all_to_all(GroupLinks& links, const CollectiveShape& shape, int member,
                    std::int64_t times) {
  const AllToAllCounts& own = shape.pairs[static_cast<std::size_t>(member)];
  links.expect_all_pairs(shape.size);
  for (int peer = 0; peer < shape.size; ++peer) {
    if (peer == member) continue;
    const std::int64_t sent = own.send[static_cast<std::size_t>(peer)];
    const std::int64_t received = own.recv[static_cast<std::size_t>(peer)];
    if (sent > 0) links.add(true, member, peer, sent * shape.width, times);
    if (received > 0) links.add(false, peer, member, received * shape.width, times);
  }
}

}  // namespace

std::uint64_t counts_hash_of(std::span<const std::int64_t> counts,
                             std::span<const ElementRange> padding_at) {
  if (counts.empty() && padding_at.empty()) return 0;
  RollingHash hash;
  for (const std::int64_t count : counts) hash.add(count);
  for (const ElementRange& range : padding_at) {
    hash.add(range.begin);
    hash.add(range.end);
  }
  return hash.value();
}

CollectiveRequest request_of(const CollectiveShape& shape, const GroupLayout& layout,
                             const DoubleTree* tree, Algorithm algorithm) {
  return {.kind = *shape.row,
          .layout = &layout,
          .tree = tree,
          .algorithm = algorithm,
          .bytes = shape.count * shape.width,
          .largest_chunk = largest_chunk(shape) * shape.width};
}

bool moves_evenly(const CollectiveShape& shape, Algorithm algorithm) {
  if (shape.row->path == CollectivePath::none) return true;
  if (shape.padding != 0 || shape.row->path != CollectivePath::ring) return false;
  if (!shape.row->reduces_to_all()) return shape.counts.empty();
  return algorithm == Algorithm::ring && shape.count % shape.size == 0;
}

int moves_evenly_until(const CollectiveShape& shape, Algorithm algorithm, int member) {
  if (moves_evenly(shape, algorithm)) return shape.size;
  const bool is_ring = shape.row->path == CollectivePath::ring && algorithm != Algorithm::tree;
  if (!is_ring || !shape.counts.empty() || !shape.padding_at.empty()) return member + 1;
  // A member moves what chunks beside it hold, too. Behind these chunks are others than before
  // them, with padding and without it.
  const std::int64_t payload = shape.count - shape.padding;
  const std::int64_t chunk = std::max<std::int64_t>(shape.chunk(0), 1);
  const std::int64_t changes[] = {0,
                                  shape.size,
                                  shape.count % shape.size,
                                  payload % shape.size,
                                  payload / chunk,
                                  payload / chunk + 1};
  std::int64_t end = shape.size;
  for (const std::int64_t change : changes) {
    if (change == member || change == member + 1) return member + 1;
    if (change > member) end = std::min(end, change - 1);
  }
  return static_cast<int>(end);
}

Moved moved_by(const CollectiveShape& shape, Algorithm algorithm, const DoubleTree* tree,
               int member) {
  const Traffic all = traffic_of(shape, algorithm, tree, member, false);
  if (shape.padding == 0) return {.payload = all};
  const Traffic payload = traffic_of(shape, algorithm, tree, member, true);
  return {.payload = payload, .padding_sent = all.sent - payload.sent};
}

bool leaves_ring(const CollectiveShape& shape, Algorithm algorithm) {
  if (shape.size == 1) return false;
  const CollectivePath path = shape.row->path;
  return path == CollectivePath::pairs || path == CollectivePath::star ||
         algorithm == Algorithm::tree;
}

void add_off_ring(GroupLinks& links, const CollectiveShape& shape, int member, std::int64_t times) {
  if (shape.row->path == CollectivePath::pairs) return add_all_to_all(links, shape, member, times);
  if (shape.row->path == CollectivePath::star) return add_star(links, shape, member, times);
  links.add_tree(shape.size, member, shape.count - shape.padding, shape.width, times);
}

}  // namespace shardsim
