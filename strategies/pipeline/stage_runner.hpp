#pragma once

#include <array>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "sim/kernel/ring_queue.hpp"

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/model/activation_offload.hpp"
#include "strategies/model/delayed_scales.hpp"
#include "strategies/model/quantized_weights.hpp"
#include "strategies/model/weight_gradient.hpp"
#include "strategies/pipeline/schedule.hpp"

// Runs one rank's list of a pipeline schedule: the only loop that takes microbatches through a
// model, with one stage or many.
namespace shardsim {

/// The source of microbatches and the receiver of their losses.
class MicrobatchSource {
 public:
  virtual ~MicrobatchSource() = default;
  /// A microbatch. Stages between the first and the last get no data: they know which one it is.
  [[nodiscard]] virtual Batch make_batch(int microbatch, bool with_data) = 0;
  /// The last stage's forward has run; `loss` has the microbatch's sums, [num_losses].
  virtual void add_loss(const Tensor& loss) = 0;
  /// Sets the factors of the batch's losses; called when its backward begins.
  virtual void set_scales(Batch& batch) = 0;
  /// An action of the schedule begins, with what it has to wait for.
  virtual void action_begins(const Action&) {}
  /// The first action of a step computes from now on, and the last one has ended.
  virtual void compute_begins() {}
  virtual void compute_ends() {}
};

/// Every stage's view of a schedule, with communication in it. Shared by all ranks.
struct StagePlan {
  const Model* model = nullptr;  ///< The stage's, with a chunk per model chunk of the schedule.
  const PipelineSchedule* schedule = nullptr;
  std::int64_t micro_batch_size = 1;
  double apart_gradient_bytes = 0.0;  ///< See ModelContext.
  bool replicas_apart = false;        ///< Replicas train models of their own.
  OffloadOptions offload;             ///< Activations in host memory.
  /// Where the works of a block take turns, its backward holds gradients of weights back. It
  /// computes them where it would wait for rows of experts.
  bool delays_weight_gradients = false;
};

/// A forward and a backward that overlap are one block: it begins when both have their input, and
/// what it makes is sent when it ends. They run one after the other; where ranks share experts and
/// keep their weights, they take turns, so that tokens of one travel while the other computes.
///
/// Memory in steady state: what microbatches in flight keep, and on every edge what is being
/// received and up to schedule.sends_in_flight messages being sent. Nothing is allocated per
/// microbatch but tensors, once as many microbatches have been in flight as ever are.
class StageRunner {
 public:
  /// Throws UsageError for a mesh that has not the edges of the schedule's placement.
  StageRunner(const StagePlan& plan, Runtime& runtime, Mesh& mesh, GradientSync& sync,
              const ModelParallel& parallel);

  /// All microbatches of a step, forward and backward. Sends have ended when it returns.
  void run_step(MicrobatchSource& source);

 private:
  // One microbatch on its way through one chunk.
  struct InFlight {
    Batch batch;
    std::vector<Saved> saved;  // Never shrunk: a longer chunk may be next here.
    Tensor input;              // Received, or handed over by the chunk before on this rank.
    Tensor output;             // To be sent.
    Tensor output_gradient;
    Tensor input_gradient;  // To be sent.
    Work receive_input;
    Work receive_gradient;
    WeightGradientQueue later;  // Between backward_input and backward_weight.
    bool weights_done = false;
    bool gradient_passed = false;
  };
  struct Sending {
    Tensor message;
    Work work;
  };
  using SendQueue = RingQueue<Sending>;

  void run(std::size_t cell, MicrobatchSource& source);
  // The block that begins in a cell.
  void run_block(std::size_t cell, MicrobatchSource& source);
  void wait_for_block(std::size_t cell, MicrobatchSource& source);
  void forward(std::size_t cell, InFlight& flight, MicrobatchSource& source);
  void backward(const Action& action, InFlight& flight, MicrobatchSource& source,
                bool holds_back = false);
  void backward_weight(const Action& action, InFlight& flight);
  void begin_weight_gradients(int chunk);
  void finish_scales(AmaxEnd end, int chunk = 0);
  void receive(Tensor& message, Work& work, Mesh::Edge edge, const char* label);
  void send(Mesh::Edge edge, const char* label, const Tensor& message);
  /// That of a chunk: where it goes up the ranks, the edge that goes up.
  [[nodiscard]] Mesh::Edge edge_for(const Action& action, Mesh::Edge down) const;
  static void finish_oldest(SendQueue& queue);
  /// The other chunk's state if the stage `distance` away is on this very rank; else null.
  InFlight* neighbour(const Action& action, int distance);
  InFlight& at(int chunk, int microbatch);
  /// A place for each module of the chunk.
  [[nodiscard]] std::span<Saved> saved_of(int chunk, InFlight& flight) const;
  void release_if_done(const Action& action, InFlight& flight);
  [[nodiscard]] int stage_of(const Action& action) const;
  [[nodiscard]] ModelContext context_of(const Action& action) const;

  const StagePlan& plan_;
  Runtime& runtime_;
  Mesh& mesh_;
  GradientSync& sync_;
  ModelParallel parallel_;
  mutable QuantizedWeights quantized_weights_;
  mutable std::optional<ActivationOffload> offload_;
  int rank_;                                           // In the pipeline.
  bool takes_turns_;                                   // In blocks.
  const std::vector<Action>& cells_;                   // The rank's.
  WeightGradientQueue held_back_{LeftWork::products};  // By the backward of a block.
  std::deque<InFlight> flights_;  // Reused; a deque, so that references stay valid.
  std::vector<int> free_;
  std::vector<int> place_;                        // By chunk and microbatch; -1: not in flight.
  std::vector<int> backwards_left_;               // By chunk.
  std::size_t last_compute_ = 0;                  // Cell of the last action that computes.
  bool computes_ = false;                         // Has begun in this step.
  std::array<SendQueue, Mesh::kNumEdges> sends_;  // By edge; those of what is received stay empty.
};

}  // namespace shardsim
