#include "tests/mutants/expert_faults.hpp"

#include "tests/mutants/copies.hpp"

namespace shardsim::test {

namespace {

bool is_of_experts(const std::string& group) { return group.find("_experts") != std::string::npos; }

// Rows with a label change on one rank before they are sent, not the numbers of experts.
Faults before_rows(const std::string& label,
                   const std::function<void(const Tensor& rows, std::int64_t h)>& change) {
  Faults faults;
  faults.before_all_to_all = [=](const Caller& caller, const Tensor& rows,
                                 const CallOptions& options) {
    const bool is_meant = label == options.label && rows.dtype() != DType::int32;
    if (is_meant && caller.world_rank == 1) change(rows, rows.shape()[1]);
  };
  return faults;
}

}  // namespace

Faults before_expert_reductions(const std::function<void(const Tensor&)>& change) {
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    if (caller.to.name() == "dp_experts" && options.traffic == TrafficClass::payload) {
      change(buffer);
    }
    return caller.to.all_reduce(buffer, op, options, site);
  };
  faults.reduce_scatter = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                              ReduceOp op, const CallOptions& options, CallSite site) {
    if (is_of_experts(caller.to.name())) change(input);
    return caller.to.reduce_scatter(output, input, op, options, site);
  };
  return faults;
}

Faults no_expert_reduction() {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    if (is_of_experts(caller.to.name())) return Work();
    return caller.to.all_reduce(buffer, op, options, site);
  };
  faults.reduce_scatter = [](const Caller& caller, const Tensor& output, const Tensor& input,
                             ReduceOp op, const CallOptions& options, CallSite site) {
    if (is_of_experts(caller.to.name())) return Work();
    return caller.to.reduce_scatter(output, input, op, options, site);
  };
  return faults;
}

Faults lost_token(const std::string& label) {
  return before_rows(label, [](const Tensor& rows, std::int64_t h) {
    if (rows.numel() > 0) scale(rows.view(0, {h}), 0.0);
  });
}

Faults doubled_token(const std::string& label) {
  return before_rows(label, [](const Tensor& rows, std::int64_t h) {
    if (rows.numel() > 0) scale(rows.view(0, {h}), 2.0);
  });
}

Faults shifted_rows(const std::string& label) {
  return before_rows(label, [](const Tensor& rows, std::int64_t h) {
    for (std::int64_t i = 0; i + h < rows.numel(); ++i) rows.set(i, rows.get(i + h));
  });
}

Faults counted_padding(const std::string& label) {
  return before_rows(label, [](const Tensor& rows, std::int64_t h) {
    for (std::int64_t first = h; first < rows.numel(); first += h) {
      const std::vector<double> values = values_of(rows.view(first, {h}));
      if (std::ranges::any_of(values, [](double value) { return value != 0.0; })) continue;
      store(rows.view(first, {h}), values_of(rows.view(first - h, {h})));
      scale(rows.view(first, {h}), 1000.0);
    }
  });
}

}  // namespace shardsim::test
