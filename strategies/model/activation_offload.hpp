#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/runtime.hpp"

#include "strategies/model/model.hpp"
#include "strategies/model/offload_modules.hpp"

// Activations in host memory from forward to backward. A block's go there while the next block runs
// forward, and come back while the block behind it runs backward, on copy streams: two blocks' are
// on the device at once. The model does not know.
// Sources: NVIDIA/TransformerEngine at d0067d0d, pytorch/cpu_offload.py; Megatron-LM at d98e8a64,
// core/pipeline_parallel/fine_grained_activation_offload.py.
namespace shardsim {

struct OffloadOptions {
  std::int64_t layers = 0;        ///< The first so many blocks of each model chunk; 0: none.
  OffloadModules modules;         ///< Their parts.
  std::int64_t min_elements = 1;  ///< Smaller tensors stay.
};

/// That of one rank. It opens streams 1 (to the host) and 2 (from it), and uses all events.
class ActivationOffload {
 public:
  /// All but `options` outlive it, as does what it is told of. REQUIRES: options.layers > 0, and
  /// that the rank has done nothing.
  ActivationOffload(const OffloadOptions& options, Runtime& runtime, const Model& model);

  /// Forward of a module has left this.
  void after_forward(int module, Saved& saved);
  /// Backward of a module comes next, and then those of the modules before it. `saved`: of the
  /// chunk's modules up to this one, the last.
  void before_backward(int module, std::span<Saved> saved);

 private:
  // A view that was in `saved`.
  struct Place {
    std::size_t at;
    std::int64_t offset;  // In bytes, behind the first of its allocation that is used.
    Shape shape;
    DType dtype;
  };
  // An allocation that was in `saved` alone.
  struct Gone {
    Tensor home;
    std::vector<Place> places;
  };
  struct Returning {
    std::uint32_t event = 0;
    std::vector<Tensor> here;  // As in its list of those that are gone; empty: not on the way.
  };
  struct Away {
    const Saved* from = nullptr;
    std::vector<Gone> gone;
    Returning returning;
  };
  // The bytes of an allocation that tensors in `saved` use, and where those are.
  struct Used {
    Tensor bytes;
    std::vector<Place> places;
  };

  [[nodiscard]] bool goes(int module) const { return !places_of_[index(module)].empty(); }
  [[nodiscard]] static std::size_t index(int module) { return static_cast<std::size_t>(module); }
  [[nodiscard]] std::vector<Used> find_used(int module, const Saved& saved) const;
  // The device goes on without what has left.
  void finish_leaving();
  [[nodiscard]] std::vector<Away>::iterator find_away(const Saved& saved);
  void begin_return(Saved& saved);
  void finish_return(Saved& saved);
  // Runs work on a copy stream, behind all that was done; `event` comes when it has ended.
  template <typename Work>
  void on_stream(std::uint32_t stream, std::uint32_t event, const Work& work);

  std::int64_t min_elements_;
  Runtime& runtime_;
  std::vector<std::vector<bool>> places_of_;  // By module, whether each tensor goes.
  std::vector<Away> away_;
  std::vector<Tensor> leaving_;
  const Saved* leaving_from_ = nullptr;
  std::uint32_t next_return_ = 0;
};

}  // namespace shardsim
