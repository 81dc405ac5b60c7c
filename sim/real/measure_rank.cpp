#include "sim/real/measure_rank.hpp"

#include "backends/process_runtime.hpp"

namespace shardsim {

RankFigures train_for_real(const RankSetting& setting, ProcessBackend& backend) {
  RankFigures figures;
  ProcessRuntime runtime(backend.rank());
  {
    const std::unique_ptr<Communicator> world = backend.world();
    std::unique_ptr<Communicator> wrapped;
    if (setting.wrap_world) wrapped = setting.wrap_world(*world);
    const ParallelPlan& plan = setting.experiment->plan();
    Mesh mesh(wrapped ? *wrapped : *world, plan.options().mesh);
    plan.train_rank(runtime, mesh, figures.image);
    figures.peak_bytes = runtime.ledger()->peak();
    figures.host_peak_bytes = runtime.host_ledger()->peak();
  }
  backend.finish();
  figures.groups = {backend.traffic().begin(), backend.traffic().end()};
  return figures;
}

MeasuredRank measure_rank(const RankSetting& setting, ProcessBackend& backend) {
  const auto meet = [&] {
    if (setting.meet) setting.meet();
  };
  meet();
  const RankFigures measured = train_for_real(setting, backend);
  meet();
  const ParallelPlan& plan = setting.experiment->plan();
  const int rank = backend.rank();
  const RankFigures simulated =
      simulate_rank(*setting.experiment, rank, {ReductionOrder::wire, setting.rings_only});
  MeasuredRank report = compare_rank(plan, rank, measured, simulated);
  if (setting.other_order) {
    const RankFigures other =
        simulate_rank(*setting.experiment, rank, {ReductionOrder::rank, setting.rings_only});
    report.order_error = compare_images(other.image, simulated.image,
                                        parameter_names(plan, plan.options().mesh.place_of(rank)))
                             .max_rel_error;
  }
  return report;
}

}  // namespace shardsim
