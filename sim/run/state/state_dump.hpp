#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/tensor.hpp"

#include "strategies/gradient_sync/whole_state.hpp"
#include "strategies/training/parallel_plan.hpp"

#include "sim/run/run.hpp"
#include "sim/verify/oracle.hpp"

// Writes the state of a run with data to files that anybody can read: one before the first step and
// one after each. They hold whole tensors under the names of the model on one device. The guide's
// page state-dump.md describes them.
namespace shardsim {

struct NamedTensor {
  std::string name;  ///< ASCII, without quotes, backslashes and control characters.
  Tensor values;
};

/// Puts whole tensors together from the ranks' pieces, in the ranks' dtype. If several ranks show
/// an element, the value of the lowest rank counts.
class GatheredTensors {
 public:
  /// `shape`: the shape of the whole tensor.
  void add(const std::string& name, const Shape& shape, int rank, const StatePiece& piece);
  /// A tensor that is whole as it is.
  void add_whole(const std::string& name, const Tensor& values);

  /// The tensors whose elements were all shown, by name.
  [[nodiscard]] std::vector<NamedTensor> whole() const;
  /// The names of the others.
  [[nodiscard]] std::vector<std::string> incomplete() const;

 private:
  struct Gathered {
    Tensor values;
    std::vector<int> ranks;  // The rank that has shown each element; kNobody.

    [[nodiscard]] bool is_whole() const;
  };
  std::map<std::string, Gathered> tensors_;
};

class StateDump {
 public:
  /// `plan` must outlive it.
  StateDump(const ParallelPlan& plan, StateFileWriter write);

  /// Reports a rank's state to the dump, and passes all calls on to `next`.
  class Observer final : public TrainingObserver {
   public:
    Observer(StateDump& dump, const Oracle::Holder& holder, TrainingObserver& next)
        : dump_(dump), holder_(holder), next_(next) {}
    void training_begins(const GradientSync& sync) override;
    void step_begins(std::int64_t step) override { next_.step_begins(step); }
    void compute_begins(std::int64_t step) override { next_.compute_begins(step); }
    void compute_ends(std::int64_t step) override { next_.compute_ends(step); }
    void action_begins(std::int64_t step, const Action& action) override {
      next_.action_begins(step, action);
    }
    void gradients_ready(std::int64_t step, const GradientSync& sync) override;
    void step_decided(std::int64_t step, bool skipped, double next_scale) override;
    void norm_ready(std::int64_t step, double norm) override { next_.norm_ready(step, norm); }
    void step_ends(std::int64_t step, const GradientSync& sync,
                   std::optional<double> loss) override;

   private:
    StateDump& dump_;
    Oracle::Holder holder_;
    TrainingObserver& next_;
  };

 private:
  // The number of steps done (0: none yet), and the replica if replicas train apart.
  using FileKey = std::pair<std::int64_t, int>;
  struct File {
    GatheredTensors tensors;
    int num_shown = 0;  // Ranks that have shown all.
    bool skipped = false;
    std::optional<double> loss;
  };
  void show(const FileKey& key, const Oracle::Holder& holder, const GradientSync& sync,
            StateKind kind);
  void show_state(const FileKey& key, const Oracle::Holder& holder, const GradientSync& sync);
  void write(const FileKey& key, File& file);
  void add_step(std::int64_t step, File& file) const;
  void add_norm(double loss_scale, File& file) const;
  [[nodiscard]] int num_holders(std::int64_t step) const;
  [[nodiscard]] std::string name_of(const FileKey& key) const;

  const ParallelPlan& plan_;
  StateFileWriter write_;
  int num_lines_;
  std::map<FileKey, File> files_;
  std::map<std::int64_t, double> loss_scales_;  // By step.
};

/// Returns a file of these tensors: the widest elements first, so that each is aligned, then by
/// name. Throws UsageError (E0955) for a dtype without a name in the format, for duplicate names,
/// and for names and metadata that need escapes. REQUIRES: all have data.
///
/// The safetensors format: 8 bytes, the length of the header as a little-endian number; the header,
/// JSON of {"NAME": {"dtype": ..., "shape": [...], "data_offsets": [first, one past last]}, ...},
/// filled up with spaces to a multiple of 8 bytes; the tensors, row-major and little-endian,
/// without gaps. "__metadata__" of the header is a map of texts. Source:
/// github.com/huggingface/safetensors, README.md and safetensors/src/tensor.rs.
[[nodiscard]] std::string to_safetensors(std::vector<NamedTensor> tensors,
                                         const std::map<std::string, std::string>& metadata);

}  // namespace shardsim
