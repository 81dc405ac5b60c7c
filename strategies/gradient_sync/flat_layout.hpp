#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/communicator.hpp"

#include "strategies/model/layer.hpp"
#include "strategies/model/model.hpp"
#include "strategies/model/model_wrapper.hpp"

// Parameters laid out in flat chunks: a chunk is stored, reduced, gathered and freed as one buffer.
// DDP and ZeRO call chunks buckets, FSDP calls them units. One layout is shared by all ranks.
namespace shardsim {

/// A parameter of a model.
[[nodiscard]] inline const ParameterSpec& spec_of(const Model& model, int parameter) {
  return model.parameters()[to_size(parameter)];
}

/// Parameters in the order in which backward reports their gradients. An inner list are those it
/// adds to at the same time (weight and bias of a layer norm) and then reports one after the other.
using ReadyOrder = std::vector<std::vector<int>>;

/// The order in which backward reports gradients, found by running the model once on shapes only
/// (PyTorch's DDP rebuilds its buckets from the first step in the same way).
[[nodiscard]] ReadyOrder gradient_ready_order(const Model& model, DType dtype);

/// Where the matrices that Muon takes lie. A chunk is updated by one rule.
enum class MatrixBuckets : std::uint8_t {
  mixed,  ///< Among all other parameters: there is no Muon.
  apart,  ///< In buckets of their own, cut into equal shards anywhere.
  whole   ///< In buckets of their own, each parameter in one shard (whole_matrices.hpp).
};

/// Each chunk is padded to a multiple of the number of shards; shard r of it is its r-th equal
/// part. A parameter that tensor-parallel ranks do not divide (a vocabulary) is filled up within
/// the chunk, on the last of them.
struct FlatChunk {
  std::string label;            ///< "bucket 3", "blocks.2": what a call says it sends.
  std::vector<int> parameters;  ///< In the order in which they lie in the chunk.
  std::int64_t numel = 0;       ///< Elements of the parameters, filled up.
  std::int64_t padded = 0;      ///< numel, up to the next multiple of the number of shards.
  bool matrices = false;        ///< Muon updates it; else the elementwise optimizer does.
  int model_chunk = 0;          ///< The model chunk whose backward completes it.
  std::int64_t offset = 0;      ///< Start in a buffer that holds all chunks, in elements.
  /// Start in a buffer that holds only the chunks of its rule.
  std::int64_t state_offset = 0;
  /// Ranges without elements of the model, by tensor-parallel rank; one list: on all of them alike.
  /// Empty: only at its end, beyond numel, on all ranks.
  std::vector<std::vector<ElementRange>> padding_at;

  /// Elements of [begin, end) that are none of the model's, on a tensor-parallel rank.
  [[nodiscard]] std::int64_t padding(int tp_rank, std::int64_t begin, std::int64_t end) const;
  /// REQUIRES: padding_at is not empty.
  [[nodiscard]] const std::vector<ElementRange>& ranges_of(int tp_rank) const {
    return padding_at.size() == 1 ? padding_at.front() : padding_at[to_size(tp_rank)];
  }
  /// Options for calls that reduce or gather the whole chunk.
  [[nodiscard]] CallOptions call_options(int tp_rank) const;
};

/// The place of a parameter.
struct FlatPlace {
  int chunk = 0;
  std::int64_t offset = 0;  ///< Within the chunk.
};

struct PackedMatrices;  // whole_matrices.hpp

class FlatLayout {
 public:
  /// Buckets for reduction while backward runs: parameters in the order in which their gradients
  /// become ready, as many to a bucket as fit in `bucket_bytes` (the first: `first_bucket_bytes`);
  /// a larger parameter has a bucket of its own. Parameters reported together share a bucket if
  /// they fit in one: were they in two, both would have to be in memory. Bucket 0 is ready first.
  /// A bucket does not span model chunks, whose gradients are complete at different times; a tied
  /// parameter has its own, so that it is cut in the same way on both stages. A bucket of fewer
  /// than `minimum_numel` elements takes what follows, however large it is. Where matrices lie
  /// apart, two buckets are open at a time, and numbered as they close.
  static FlatLayout buckets(const Model& model, const ReadyOrder& ready_order,
                            std::int64_t bucket_bytes, std::int64_t first_bucket_bytes,
                            DType gradient_dtype, int num_shards, std::int64_t minimum_numel = 0,
                            MatrixBuckets matrices = MatrixBuckets::mixed);
  /// One chunk per unit of the model, in the model's order.
  static FlatLayout units(const Model& model, int num_shards);

  [[nodiscard]] int num_shards() const { return num_shards_; }
  [[nodiscard]] std::span<const FlatChunk> chunks() const { return chunks_; }
  [[nodiscard]] const FlatChunk& chunk(int index) const { return chunks_[to_size(index)]; }
  [[nodiscard]] const FlatPlace& place(int parameter) const { return places_[to_size(parameter)]; }
  [[nodiscard]] const Shape& shape(int parameter) const { return shapes_[to_size(parameter)]; }
  /// Elements of all parameters, filled up, and of all chunks with padding.
  [[nodiscard]] std::int64_t numel() const { return numel_; }
  [[nodiscard]] std::int64_t padded() const { return padded_; }
  /// The latter of the chunks that Muon updates, or of all others.
  [[nodiscard]] std::int64_t padded_of(bool matrices) const {
    return matrices ? padded_matrices_ : padded_ - padded_matrices_;
  }

  /// Calls `visit(parameter, first element of it, elements, place in the range)` for every piece of
  /// a parameter in elements [begin, end) of a chunk; padding is passed over.
  using PieceVisitor =
      std::function<void(int parameter, std::int64_t first, std::int64_t count, std::int64_t at)>;
  void for_each_piece(int chunk, std::int64_t begin, std::int64_t end,
                      const PieceVisitor& visit) const;

 private:
  FlatLayout(const Model& model, int num_shards);
  void add_chunk(const Model& model, std::string label, std::vector<int> parameters);
  // The same with places of the caller's, in shards of `shard` elements.
  void add_packed_chunk(const Model& model, std::string label, const PackedMatrices& packed);
  void finish_chunk(const Model& model, FlatChunk chunk);
  friend class BucketFiller;

  int num_shards_;
  bool has_apart_ = false;  // Chunks of matrices.
  std::int64_t numel_ = 0;
  std::int64_t padded_ = 0;
  std::int64_t padded_matrices_ = 0;
  std::vector<Shape> shapes_;
  std::vector<FlatPlace> places_;
  std::vector<FlatChunk> chunks_;
};

/// The same model, its parameters grouped into other units.
class OtherUnits : public ModelWrapper {
 public:
  [[nodiscard]] std::span<const ParameterUnit> units() const override { return units_; }
  [[nodiscard]] std::span<const int> units_of(int module) const override {
    return module_units_[to_size(module)];
  }

 protected:
  static constexpr int kNoUnit = -1;
  using ModelWrapper::ModelWrapper;
  /// After `units_`. `number_of`: by unit of the inner model, the new unit that its parameters are
  /// in, if any.
  void list_units(const std::vector<int>& number_of);

  std::vector<ParameterUnit> units_;

 private:
  std::vector<std::vector<int>> module_units_;
};

/// The same model with larger units: neighbours are one unit until it has `minimum_numel` elements,
/// so that small ones are not gathered and reduced alone. A unit that is read by several modules
/// stays gathered from its first forward to its last backward: the price of fewer messages. Units
/// of different model chunks and tied parameters are not joined, and the last unit may be smaller.
class GroupedUnits final : public OtherUnits {
 public:
  /// `inner` must outlive it.
  GroupedUnits(const Model& inner, std::int64_t minimum_numel);
};

}  // namespace shardsim
