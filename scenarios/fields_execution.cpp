#include "sim/kernel/metric_rows.hpp"

#include "scenarios/field_table.hpp"

namespace shardsim {

namespace {

bool is_plan(const Scenario& s) { return s.execution.tensors == TensorMode::meta; }

// Whether ranks send from stage to stage, or round a ring of context-parallel ranks.
bool sends(const Scenario& s) {
  const ParallelismSpec& p = s.parallelism;
  return p.pp > 1 || (p.cp > 1 && context_attention_row(p.cp_attention).passes_keys_around);
}

}  // namespace

std::vector<Field> execution_fields() {
  using E = ExecutionSpec;
  const auto execution = [](const char* path, auto member) {
    return field(path, &Scenario::execution, member);
  };
  return {
      execution("execution.tensors", &E::tensors)
          .or_else("\"meta\"")
          .doc("meta: shapes only, to plan. real: numbers, compared with one rank at every step."),
      execution("execution.steps", &E::steps)
          .range(1, 1000000)
          .or_else("1")
          .same_as({{"Megatron-LM", "train_iters"}})
          .doc("Training steps to run."),
      execution("execution.seed", &E::seed)
          .range(0, kTwoTo53)
          .or_else("1")
          .of_values()
          .doc("Start of all random numbers: weights, data, ignored targets."),
      execution("execution.backend", &E::backend)
          .one_of({"fiber", "mpi", "nccl"})
          .or_else("\"fiber\"")
          .until("running on real processes")
          .doc("fiber: virtual ranks in this process, in virtual time."),
      execution("execution.reduction_order", &E::reduction_order)
          .or_else("\"rank\"")
          .acts_when("tensors is real", [](const Scenario& s) { return !is_plan(s); })
          .doc(
              "Order in which a reduction adds. rank: 0, 1, 2, ... ring: as a ring would, rounding "
              "at each hop."),
      execution("execution.all_reduce_algorithm", &E::all_reduce_algorithm)
          .or_else("\"automatic\"")
          .doc("How all_reduce is priced; automatic takes the cheaper one."),
      execution("execution.buffered_sends", &E::buffered_sends)
          .or_else("false")
          .acts_when("pp is more than 1, or cp with a ring", sends)
          .doc(
              "A send between pipeline stages, or round a ring, does not wait until its receive is "
              "posted. NCCL does not promise that."),
      execution("execution.engine", &E::engine)
          .one_of({"auto", "run", "replay"})
          .or_else("\"auto\"")
          .acts_when("tensors is meta and the backend is fiber",
                     [](const Scenario& s) { return is_plan(s) && s.execution.backend == "fiber"; })
          .doc("How the ranks of a plan are executed; the result is the same. run: the strategy's "
               "code runs on every rank. replay: it is recorded once for all ranks that do the "
               "same, and replayed for each; refused where that cannot be. auto: replay where it "
               "can be, else run."),
      execution("execution.fold", &E::fold)
          .one_of({"off", "auto", "require"})
          .or_else("\"off\"")
          .acts_when("tensors is meta and the backend is fiber",
                     [](const Scenario& s) { return is_plan(s) && s.execution.backend == "fiber"; })
          .doc("Whether data-parallel replicas that do the same are run once, with the same "
               "metrics but for " +
               std::string(metric::kTraceHash.name) +
               ". auto: where that can be shown. require: or else refuse."),
      execution("execution.memory_margin", &E::memory_margin)
          .below(0, 1)
          .or_else("0.05")
          .acts_when("tensors is meta", is_plan)
          .doc("Share of the device's memory that a plan should leave. A plan that fits but leaves "
               "less gets a warning, and `shardsim plan` ranks it last."),
  };
}

std::vector<Field> cost_fields() {
  return {
      field("cost.usd_per_gpu_hour", &Scenario::cost, &CostSpec::usd_per_gpu_hour)
          .range(0, 1e6)
          .unit("$")
          .or_else("0")
          .acts_when("training.tokens_total is given",
                     [](const Scenario& s) { return s.training.tokens_total > 0; })
          .doc("Price of one GPU for an hour, including everything billed by its hours; 0: not "
               "known."),
  };
}

std::vector<Field> output_fields() {
  using O = OutputSpec;
  const auto output = [](const char* path, auto member) {
    return field(path, &Scenario::output, member);
  };
  constexpr auto kExpectations = [](auto& s) -> auto& { return s.expect; };
  return {
      item_field("expect[].metric", kExpectations, &Expectation::metric)
          .required()
          .doc("Name of a metric of the result, such as \"" +
               std::string(metric::kMemoryPeakBytesMax.name) + "\"."),
      item_field("expect[].op", kExpectations, &Expectation::op).required().doc("Comparison."),
      item_field("expect[].value", kExpectations, &Expectation::value)
          .range(-1e300, 1e300)
          .required()
          .doc("The value that the metric is compared with, in its own unit."),
      output("output.report", &O::report)
          .or_else("\"\"")
          .doc("Report for a browser, one file that needs no network, such as \"report.html\"."),
      output("output.markdown", &O::markdown)
          .or_else("\"\"")
          .doc("A short report in Markdown, such as \"report.md\"."),
      output("output.csv", &O::csv)
          .or_else("\"\"")
          .doc("The metrics as name and value, such as \"run.csv\"; tables go beside it, to "
               "\"run.stages.csv\" and their like."),
      output("output.trace", &O::trace)
          .or_else("\"\"")
          .doc("Trace for Perfetto, such as \"step.pftrace\"."),
      output("output.trace_ranks", &O::trace_ranks)
          .range(0, kTwoTo40)
          .or_auto()
          .derived("the first eight ranks, or all if there are fewer")
          .acts_when("output.trace is given",
                     [](const Scenario& s) { return !s.output.trace.empty(); })
          .doc("Ranks that the trace shows, a list such as [0, 8]."),
      output("output.result", &O::result)
          .or_else("\"\"")
          .doc("The result object as JSON, such as \"result.json\"."),
  };
}

}  // namespace shardsim
