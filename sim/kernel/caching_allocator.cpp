#include "sim/kernel/caching_allocator.hpp"

#include <algorithm>

namespace shardsim {

namespace {

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// round_size, get_pool, get_allocation_size and should_split of the source named in the header.
bool is_small(std::int64_t size) { return size <= CachingAllocator::kLargestSmall; }

std::int64_t segment_size_for(std::int64_t size) {
  if (is_small(size)) return CachingAllocator::kSmallSegment;
  if (size < CachingAllocator::kOwnSegmentFrom) return CachingAllocator::kSharedSegment;
  return round_up(size, CachingAllocator::kOwnSegmentRounding);
}

// Whether the rest of a block becomes a block of its own; else it stays in the block.
bool is_worth_splitting(bool is_small_pool, std::int64_t rest) {
  return is_small_pool ? rest >= CachingAllocator::kBlockBytes
                       : rest > CachingAllocator::kLargestSmall;
}

}  // namespace

std::optional<BlockId> CachingAllocator::allocate(std::int64_t bytes) {
  if (bytes == 0) return BlockId{0};
  if (bytes > kUnlimited) return std::nullopt;  // So that rounding up stays within 64 bits.
  const std::int64_t size = round_up(bytes, kBlockBytes);
  BlockId id = take_free_block(size);
  if (id == 0) id = take_segment(size);
  if (id == 0) {
    ++retries_;
    release_free_segments(large_);
    release_free_segments(small_);
    id = take_segment(size);
  }
  if (id == 0) return std::nullopt;
  if (is_worth_splitting(at(id).is_small, at(id).size - size)) split(id, size);
  at(id).in_use = true;
  allocated_ += at(id).size;
  allocated_peak_ = std::max(allocated_peak_, allocated_);
  return id;
}

void CachingAllocator::free(BlockId id) {
  if (id == 0) return;
  Block& block = at(id);
  block.in_use = false;
  allocated_ -= block.size;
  merge(block, block.previous);
  merge(block, block.next);
  insert_free(block);
}

BlockId CachingAllocator::take_free_block(std::int64_t size) {
  FreeBlocks& pool = is_small(size) ? small_ : large_;
  const auto found = std::ranges::lower_bound(pool, FreeBlock{.size = size});
  if (found == pool.end()) return 0;
  const BlockId id = found->id;
  pool.erase(found);
  return id;
}

BlockId CachingAllocator::take_segment(std::int64_t size) {
  const std::int64_t segment = segment_size_for(size);
  if (segment > capacity_ - reserved_) return 0;
  reserved_ += segment;
  reserved_peak_ = std::max(reserved_peak_, reserved_);
  Block& block = new_block();
  block.size = segment;
  block.segment = num_segments_++;
  block.is_small = is_small(size);
  return block.id;
}

// The front of the block, which is in no pool, keeps `size` bytes; the rest becomes a free block.
void CachingAllocator::split(BlockId id, std::int64_t size) {
  Block& rest = new_block();
  Block& block = at(id);
  rest.size = block.size - size;
  rest.offset = block.offset + size;
  rest.segment = block.segment;
  rest.is_small = block.is_small;
  rest.previous = block.id;
  rest.next = block.next;
  if (rest.next != 0) at(rest.next).previous = rest.id;
  block.next = rest.id;
  block.size = size;
  insert_free(rest);
}

// `block`, which is in no pool, takes a neighbour in if that is free.
void CachingAllocator::merge(Block& block, BlockId id) {
  if (id == 0) return;
  Block& neighbour = at(id);
  if (neighbour.in_use) return;
  FreeBlocks& pool = pool_of(neighbour);
  pool.erase(std::ranges::lower_bound(
      pool, FreeBlock{neighbour.size, neighbour.segment, neighbour.offset, id}));
  if (block.previous == id) {
    block.previous = neighbour.previous;
    block.offset = neighbour.offset;
    if (block.previous != 0) at(block.previous).next = block.id;
  } else {
    block.next = neighbour.next;
    if (block.next != 0) at(block.next).previous = block.id;
  }
  block.size += neighbour.size;
  drop(neighbour);
}

// A free block without neighbours is a whole segment.
void CachingAllocator::release_free_segments(FreeBlocks& pool) {
  std::erase_if(pool, [this](const FreeBlock& entry) {
    Block& block = at(entry.id);
    if (block.previous != 0 || block.next != 0) return false;
    reserved_ -= block.size;
    drop(block);
    return true;
  });
}

void CachingAllocator::insert_free(const Block& block) {
  const FreeBlock entry{block.size, block.segment, block.offset, block.id};
  FreeBlocks& pool = pool_of(block);
  pool.insert(std::ranges::lower_bound(pool, entry), entry);
}

CachingAllocator::Block& CachingAllocator::new_block() {
  if (unused_ == 0) {
    Block& block = blocks_.emplace_back();
    block.id = static_cast<BlockId>(blocks_.size());
    return block;
  }
  Block& block = at(unused_);
  unused_ = block.next;
  const BlockId id = block.id;
  block = Block();
  block.id = id;
  return block;
}

void CachingAllocator::drop(Block& block) {
  block.size = 0;  // Marks an unused entry.
  block.next = unused_;
  unused_ = block.id;
}

std::vector<CachingAllocator::SegmentView> CachingAllocator::snapshot() const {
  std::vector<const Block*> firsts;
  for (const Block& block : blocks_) {
    if (block.size > 0 && block.previous == 0) firsts.push_back(&block);
  }
  std::ranges::sort(firsts, {}, &Block::segment);
  std::vector<SegmentView> segments;
  for (const Block* block : firsts) {
    SegmentView& segment = segments.emplace_back();
    segment.push_back({block->offset, block->size, block->in_use});
    while (block->next != 0) {
      block = &blocks_[block->next - 1];
      segment.push_back({block->offset, block->size, block->in_use});
    }
  }
  return segments;
}

}  // namespace shardsim
