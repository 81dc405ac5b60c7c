#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strategies/model/graph_modules.hpp"
#include "strategies/model/model_norm.hpp"
#include "strategies/model/offload_modules.hpp"
#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"

// The branches of a block: what reads the residual stream and joins it again. A mixer (attention,
// or what stands in its place) exchanges something between positions; a feed-forward does not.
// TransformerBlock puts norms, dropout and the sum around them.
namespace shardsim {

/// The pass of a part of what `pass` goes through, whose first parameter has number `first` there.
[[nodiscard]] inline Pass part_of(Pass pass, int first) {
  pass.first += first;
  return pass;
}

void drop_all(std::span<Tensor> kept);

/// The input of a branch, x [b, s, h], or with sequence parallelism this rank's tokens [b s / t,
/// h]; with context parallelism s is this rank's share. It is a norm of the stream, or the stream
/// itself. A norm that is recomputed is dropped after its use in forward and made again in
/// backward.
class BranchInput {
 public:
  struct Norm {
    const ModelNorm* norm;  ///< Null: the stream itself.
    int first;              ///< Its first parameter, in `pass`,
    int readers;            ///< and that of the branch which reads it.
    Tensor& of;             ///< The stream.
    Tensor& y;
    Tensor& statistics;
    Tensor& quantized;  ///< See entering().
  };
  /// Readers of it.
  struct Use {
    bool is_dropped = false;   ///< A norm that is recomputed.
    bool reads_value = false;  ///< Backward reads it for more than weights of linear layers.
  };
  BranchInput(const Pass& pass, const Norm& norm, const Use& use)
      : pass_(pass), norm_(norm), is_dropped_(use.is_dropped), reads_value_(use.reads_value) {}

  /// Makes it, if it is not there.
  const Tensor& value();
  /// The tensor that linear layers read: itself, or its quantized rows. Backward then has quantized
  /// columns, and the norm's output is dropped if nothing else reads it.
  [[nodiscard]] Tensor entering();
  /// Forward has used it.
  void drop_recomputed();
  /// Backward begins with forward, and quantizes it again.
  void drop_quantized() { norm_.quantized = {}; }
  /// Whether that drops it.
  [[nodiscard]] bool is_dropped() const { return is_dropped_; }
  /// It is not dropped from here on: backward is about to read it.
  void keep() { is_dropped_ = false; }
  /// For the last that reads it in backward: what the weights' gradients of linear layers read.
  [[nodiscard]] Tensor take();
  /// Nothing reads it any more.
  void drop();
  /// As take(), for readers ahead of the last.
  const Tensor& columns();

 private:
  [[nodiscard]] LinearOperand place() const {
    return {norm_.readers, norm_.norm == nullptr ? Held::tokens : Held::norm_output};
  }

  const Pass& pass_;
  Norm norm_;
  bool is_dropped_;
  bool reads_value_;
};

class Branch {
 public:
  virtual ~Branch() = default;

  /// The stream of dropout's random numbers, in a block.
  [[nodiscard]] virtual const char* dropout_stream() const = 0;
  /// Adds the parameters it has in a block. Names start with `name`. More units may begin.
  virtual void add_parameters(ParameterTable& table, const std::string& name, int block) const = 0;
  /// Tensors that it keeps for backward.
  [[nodiscard]] virtual std::size_t num_kept() const = 0;
  /// Returns y in the shape of x, before dropout. `pass` counts parameters from the branch's first.
  [[nodiscard]] virtual Tensor forward(const Pass& pass, BranchInput& x,
                                       std::span<Tensor> kept) const = 0;
  /// forward() again, for `kept` alone: what only y needs may be left out.
  virtual void refill(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
    static_cast<void>(forward(pass, x, kept));
  }
  /// Adds and reports the gradients of its parameters, the last one's first, drops what is kept and
  /// x, and returns the gradient of x.
  [[nodiscard]] virtual Tensor backward(const Pass& pass, Tensor dy, BranchInput& x,
                                        std::span<Tensor> kept) const = 0;
  /// Flops of forward for one whole sample, beside those of the products with its matrices.
  [[nodiscard]] virtual std::int64_t forward_flops_per_sample(int /*block*/) const { return 0; }
  /// The part that the branch is, among those that may be one CUDA graph.
  [[nodiscard]] virtual GraphModule graph_module() const { return GraphModule::attn; }
  /// Whether these have all of it.
  [[nodiscard]] virtual bool is_captured(const GraphModules& graphs) const {
    return graphs.has(graph_module());
  }
  /// Whether forward leaves more to backward than the tensors kept.
  [[nodiscard]] virtual bool keeps_state() const { return false; }
  // The parts of a block for whose inputs tensors stay; `everything`: for none that has a name.
  /// The reader of the stream ahead of the branch's norm,
  [[nodiscard]] virtual OffloadModule stream_reader() const { return OffloadModule::mlp_norm; }
  /// that of the branch's input,
  [[nodiscard]] virtual OffloadModule input_reader() const { return OffloadModule::everything; }
  /// and that of a tensor which it keeps.
  [[nodiscard]] virtual OffloadModule reader_of(std::size_t /*kept*/) const {
    return OffloadModule::everything;
  }
  /// Whether backward reads the input for more than gradients of linear layers' weights.
  [[nodiscard]] virtual bool reads_input() const { return false; }
};

/// A branch that is one region of tensor parallelism: column-parallel layers that read x, work on
/// this rank's share of heads or channels, and a row-parallel layer.
class RegionBranch : public Branch {
 public:
  struct Row {
    int k;  ///< Number of its weight; a bias follows it.
    bool has_bias;
    const char* name;    ///< In errors.
    double scale = 1.0;  ///< Factor of its output, with its bias.
  };
  /// Those of num_inner(), and what backward reads of the row-parallel layer's input, if that is
  /// quantized.
  [[nodiscard]] std::size_t num_kept() const final { return num_inner() + 1; }
  /// Tensors that the branch itself keeps.
  [[nodiscard]] virtual std::size_t num_inner() const = 0;
  /// The names of the column-parallel layers, in errors.
  [[nodiscard]] virtual const char* columns() const = 0;
  [[nodiscard]] virtual Row row(const Pass& pass) const = 0;
  /// Whether apply_linear() is the first that reads the region's input.
  [[nodiscard]] virtual bool reads_by_linear() const { return false; }
  /// Enters the region; returns what forward_inside reads, with all tokens of the region.
  [[nodiscard]] virtual Tensor enter(const Pass& pass, BranchInput& x,
                                     std::span<Tensor> kept) const;
  /// From x, with all tokens of the region, to what the row-parallel layer reads. Drops `entered`
  /// after its use, and then x.
  [[nodiscard]] virtual Tensor forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                              std::span<Tensor> kept) const = 0;
  /// Whether nothing but x is kept: backward then runs forward again.
  [[nodiscard]] virtual bool runs_again() const { return false; }
  /// Then it reads all of x.
  [[nodiscard]] bool reads_input() const override { return runs_again(); }
  /// Forward has used what the row-parallel layer reads. `is_quantized`: and keeps columns of it.
  virtual void drop_row_input(std::span<Tensor> /*kept*/, bool /*is_quantized*/) const {}
  /// Whether it makes what the row-parallel layer reads again in backward.
  [[nodiscard]] virtual bool recomputes_row_input() const { return false; }
  /// The tensor that the row-parallel layer read; made again if it was dropped.
  [[nodiscard]] virtual Tensor row_input(const Pass& pass, std::span<Tensor> kept) const = 0;
  /// Makes again what forward_inside dropped and backward_inside reads.
  virtual void remake(const Pass& /*pass*/, BranchInput& /*x*/, std::span<Tensor> /*kept*/) const {}
  /// From its gradient to those of the column-parallel layers' outputs, in their order. Adds and
  /// reports the gradients of parameters in between.
  [[nodiscard]] virtual ColumnLinears backward_inside(const Pass& pass, Tensor d,
                                                      std::span<Tensor> kept) const = 0;
  /// The way back of enter(): adds and reports the gradients of `readers`, which backward_inside
  /// returned, drops x, and returns its gradient.
  [[nodiscard]] virtual Tensor leave(const Pass& pass, std::span<ColumnLinear> readers,
                                     BranchInput& x, std::span<Tensor> kept) const;

  [[nodiscard]] Tensor forward(const Pass& pass, BranchInput& x,
                               std::span<Tensor> kept) const final;
  /// Ends where the row-parallel layer would begin.
  void refill(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const final;
  [[nodiscard]] Tensor backward(const Pass& pass, Tensor dy, BranchInput& x,
                                std::span<Tensor> kept) const final;

  /// forward_inside(), to what the row-parallel layer reads.
  [[nodiscard]] Tensor forward_to_row(const Pass& pass, Tensor entered, BranchInput& x,
                                      std::span<Tensor> kept) const;
  /// The row-parallel layer has run in forward.
  void finish_row(const Pass& pass, std::span<Tensor> kept) const;
  /// The tensor that the gradient of the row-parallel layer's weight reads.
  [[nodiscard]] Tensor take_row_input(const Pass& pass, std::span<Tensor> kept) const;

 private:
  [[nodiscard]] Tensor run_forward(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const;
};

}  // namespace shardsim
