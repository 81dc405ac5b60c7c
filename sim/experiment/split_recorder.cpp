#include "sim/experiment/split_recorder.hpp"

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

[[noreturn]] void refuse(const char* call) {
  throw Error(ExitCode::internal, "E7007",
              std::string(call) + " of a rank that only says how it splits the world",
              "use execution.fold \"off\", and please report this scenario");
}

}  // namespace

const std::string& SplitRecorder::name() const {
  static const std::string kName = "world";
  return kName;
}

std::unique_ptr<Communicator> SplitRecorder::split(int color, int key, const std::string&,
                                                   CallSite) {
  if (choices_ != nullptr) choices_->push_back({color, key});
  if (color == kNoColor) return nullptr;
  return std::make_unique<SplitRecorder>(0, 1, nullptr);
}

Work SplitRecorder::all_reduce(const Tensor&, ReduceOp, const CallOptions&, CallSite) {
  refuse("all_reduce");
}
Work SplitRecorder::reduce_scatter(const Tensor&, const Tensor&, ReduceOp, const CallOptions&,
                                   CallSite) {
  refuse("reduce_scatter");
}
Work SplitRecorder::all_gather(const Tensor&, const Tensor&, const CallOptions&, CallSite) {
  refuse("all_gather");
}
Work SplitRecorder::all_to_all(const Tensor&, const Tensor&, std::span<const std::int64_t>,
                               std::span<const std::int64_t>, const CallOptions&, CallSite) {
  refuse("all_to_all");
}
Work SplitRecorder::broadcast(const Tensor&, int, const CallOptions&, CallSite) {
  refuse("broadcast");
}
Work SplitRecorder::reduce(const Tensor&, ReduceOp, int, const CallOptions&, CallSite) {
  refuse("reduce");
}
Work SplitRecorder::gather(const Tensor&, const Tensor&, int, const CallOptions&, CallSite) {
  refuse("gather");
}
Work SplitRecorder::scatter(const Tensor&, const Tensor&, int, const CallOptions&, CallSite) {
  refuse("scatter");
}
Work SplitRecorder::barrier(const CallOptions&, CallSite) { refuse("barrier"); }
Work SplitRecorder::send(const Tensor&, int, const CallOptions&, CallSite) { refuse("send"); }
Work SplitRecorder::recv(const Tensor&, int, const CallOptions&, CallSite) { refuse("recv"); }
Work SplitRecorder::batch(std::span<const P2pOp>, const CallOptions&, CallSite) { refuse("batch"); }

}  // namespace shardsim
