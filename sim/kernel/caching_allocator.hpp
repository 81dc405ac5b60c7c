#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

// The device memory that PyTorch's caching allocator takes for a sequence of requests. Only sizes
// matter, so it is a pure function of that sequence. Rules and constants are those of
// c10/cuda/CUDACachingAllocator.cpp with its default settings (no max_split_size_mb, no garbage
// collection, no expandable segments) and one stream; docs/decisions/0033-caching-allocator.md.
namespace shardsim {

/// A block that is in use. 0 is the block of a request of no bytes, which takes no memory.
using BlockId = std::uint32_t;

class CachingAllocator {
 public:
  /// Requests are rounded up to multiples of this.
  static constexpr std::int64_t kBlockBytes = 512;
  /// Rounded requests up to here come from the small pool, others from the large one.
  static constexpr std::int64_t kLargestSmall = std::int64_t{1} << 20U;
  /// Size of a segment of the small pool.
  static constexpr std::int64_t kSmallSegment = std::int64_t{2} << 20U;
  /// Requests of the large pool below the bound share segments of this size; those from it on get
  /// a segment of their own, rounded up.
  static constexpr std::int64_t kSharedSegment = std::int64_t{20} << 20U;
  static constexpr std::int64_t kOwnSegmentFrom = std::int64_t{10} << 20U;
  static constexpr std::int64_t kOwnSegmentRounding = std::int64_t{2} << 20U;
  /// More than any device has; no capacity may be larger.
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 2;

  /// The device memory that it may use, in bytes. REQUIRES: 0 <= capacity <= kUnlimited.
  explicit CachingAllocator(std::int64_t capacity) : capacity_(capacity) {}

  /// Nothing if the request does not fit even after all segments that are wholly free have gone
  /// back to the device. REQUIRES: bytes >= 0.
  [[nodiscard]] std::optional<BlockId> allocate(std::int64_t bytes);
  /// REQUIRES: `block` comes from allocate() and is in use.
  void free(BlockId block);
  /// Holds from now on; at least the reserved bytes. REQUIRES: capacity <= kUnlimited.
  void set_capacity(std::int64_t capacity) { capacity_ = capacity; }

  /// Bytes of blocks in use, which may be larger than what was asked for.
  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  /// Bytes taken from the device: segments, in use or not.
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }
  [[nodiscard]] std::int64_t allocated_peak() const { return allocated_peak_; }
  [[nodiscard]] std::int64_t reserved_peak() const { return reserved_peak_; }
  /// How often the device had no room and wholly free segments were given back. On a GPU each of
  /// them waits for all work under way.
  [[nodiscard]] std::int64_t retries() const { return retries_; }

  struct BlockView {
    std::int64_t offset;  ///< In its segment.
    std::int64_t size;
    bool in_use;
  };
  using SegmentView = std::vector<BlockView>;
  /// Every segment in the order they were taken, each with its blocks by offset: for tests.
  [[nodiscard]] std::vector<SegmentView> snapshot() const;

 private:
  struct Block {
    std::int64_t size = 0;
    std::int64_t offset = 0;
    std::int64_t segment = 0;  // Counted as they are taken; stands for the address.
    BlockId id = 0;
    BlockId previous = 0;  // Neighbours in the segment; 0: none.
    BlockId next = 0;      // In an unused entry: the next unused one.
    bool in_use = false;
    bool is_small = false;
  };
  // Best fit: the smallest, of equals the one at the lowest address.
  struct FreeBlock {
    std::int64_t size = 0;
    std::int64_t segment = 0;
    std::int64_t offset = 0;
    BlockId id = 0;
    friend auto operator<=>(const FreeBlock&, const FreeBlock&) = default;
  };
  using FreeBlocks = std::vector<FreeBlock>;  // In order: few, and close together in memory.

  [[nodiscard]] Block& at(BlockId id) { return blocks_[id - 1]; }
  [[nodiscard]] FreeBlocks& pool_of(const Block& block) { return block.is_small ? small_ : large_; }
  void insert_free(const Block& block);
  // Others may have moved.
  Block& new_block();
  void drop(Block& block);
  // 0: there is none.
  [[nodiscard]] BlockId take_free_block(std::int64_t size);
  [[nodiscard]] BlockId take_segment(std::int64_t size);
  void split(BlockId id, std::int64_t size);
  void merge(Block& block, BlockId neighbour);
  void release_free_segments(FreeBlocks& pool);

  std::int64_t capacity_;
  std::int64_t allocated_ = 0;
  std::int64_t reserved_ = 0;
  std::int64_t allocated_peak_ = 0;
  std::int64_t reserved_peak_ = 0;
  std::int64_t retries_ = 0;
  std::int64_t num_segments_ = 0;  // Ever taken.
  std::vector<Block> blocks_;      // Reused: as many as there ever were at once.
  BlockId unused_ = 0;
  FreeBlocks small_;
  FreeBlocks large_;
};

}  // namespace shardsim
