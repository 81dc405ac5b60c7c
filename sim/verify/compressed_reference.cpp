#include <string>
#include <utility>

#include "strategies/gradient_sync/compressors.hpp"

#include "sim/verify/reference_algorithm.hpp"

namespace shardsim {

namespace {

// Computes and compresses every rank's gradient, with the residual of its last compression, and
// adds all up. Unless parcels go to all, the owners then compress the sum in the same way, which
// adds one residual. How a bucket is compressed is said by the compressor's row, in doubles.
class CompressedReference final : public ReferenceAlgorithm {
 public:
  CompressedReference(const ParallelPlan& plan, const std::function<void()>& on_progress)
      : parts_(plan, on_progress),
        layout_(plan.layout(0)),
        rule_(plan.options().sync.compression),
        model_(parts_.runtime(), parts_.sync()) {
    ReferenceTensors none = model_.gradients();
    for (std::vector<double>& values : none) values.assign(values.size(), 0.0);
    residuals_.assign(static_cast<std::size_t>(parts_.num_ranks()), none);
    residual_of_sum_ = none;
  }

 protected:
  std::vector<ReferenceStep> train() override {
    std::vector<ReferenceStep> lines(1);
    ReferenceStep& step = lines.front();
    const double targets = parts_.targets(step_, 0, parts_.num_ranks());
    ReferenceTensors sum;
    for (int rank = 0; rank < parts_.num_ranks(); ++rank) {
      step.loss += parts_.run(step_, rank, 1, targets, model_);
      ReferenceTensors received =
          send(model_.gradients(), residuals_[static_cast<std::size_t>(rank)]);
      if (sum.empty()) {
        sum = std::move(received);
        continue;
      }
      for (std::size_t i = 0; i < sum.size(); ++i) {
        for (std::size_t j = 0; j < sum[i].size(); ++j) sum[i][j] += received[i][j];
      }
    }
    if (targets > 0.0) step.loss /= targets;
    const bool twice = !rule_.compressor->route.to_all;
    if (twice) sum = send(sum, residual_of_sum_);
    model_.set_gradients(sum);
    step.kinds["gradient"] = sum;
    parts_.update(model_, ++step_);
    model_.record_state(step);
    if (!rule_.error_feedback) return lines;
    const std::string name = twice ? "worker_error" : "residual";
    for (std::size_t rank = 0; rank < residuals_.size(); ++rank) {
      step.kinds[name + " of data rank " + std::to_string(rank)] = residuals_[rank];
    }
    if (twice) step.kinds["server_error"] = residual_of_sum_;
    return lines;
  }

 private:
  // Compresses a gradient bucket by bucket; `residual` is the sender's.
  ReferenceTensors send(const ReferenceTensors& gradient, ReferenceTensors& residual) {
    ReferenceTensors received = gradient;
    for (const FlatChunk& bucket : layout_.chunks()) {
      std::vector<double> values;
      for (const int parameter : bucket.parameters) {
        const auto i = static_cast<std::size_t>(parameter);
        for (std::size_t j = 0; j < gradient[i].size(); ++j) {
          values.push_back(gradient[i][j] + (rule_.error_feedback ? residual[i][j] : 0.0));
        }
      }
      const CompressedValues sent = rule_.compressor->in_doubles(values, rule_);
      std::size_t at = 0;
      for (const int parameter : bucket.parameters) {
        const auto i = static_cast<std::size_t>(parameter);
        for (std::size_t j = 0; j < gradient[i].size(); ++j, ++at) {
          received[i][j] = sent.received[at];
          residual[i][j] = sent.left[at];
        }
      }
    }
    return received;
  }

  SampleParts parts_;
  const FlatLayout& layout_;  // Which parameters share a bucket, and in which order.
  GradientCompression rule_;
  WholeParameters model_;
  std::vector<ReferenceTensors> residuals_;  // By data rank.
  ReferenceTensors residual_of_sum_;         // That of all its owners, if they compress it.
  std::int64_t step_ = 0;
};

}  // namespace

std::shared_ptr<ReferenceAlgorithm> make_compressed_reference(
    const ParallelPlan& plan, const std::function<void()>& on_progress) {
  return std::make_shared<CompressedReference>(plan, on_progress);
}

}  // namespace shardsim
