#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "reports/csv_tables.hpp"
#include "sim/search/search_report.hpp"

namespace shardsim {

namespace {

bool is_on_front(const SearchReport& report, const SimulatedPoint& point) {
  return std::any_of(report.front.begin(), report.front.end(),
                     [&](const SimulatedPoint& other) { return other.index == point.index; });
}

}  // namespace

// Every simulated layout that fits, best first.
std::string to_csv(const SearchReport& report) {
  std::string text =
      "rank,on_front,layout,tp,pp,cp,ep,vpp,dp_replicate,dp_shard,zero_stage,sequence_parallel,"
      "schedule,micro_batch_size,num_microbatches,recompute,step_time_s,tokens_per_s_per_gpu,mfu,"
      "compute_s,exposed_comm_s,bubble_s,host_s,peak_bytes,device_bytes,usd_per_1t_tokens\n";
  std::size_t rank = 0;
  for (const SimulatedPoint& point : report.others) {
    const Candidate& c = point.candidate;
    const std::string cost = report.usd_per_gpu_hour > 0
                                 ? fmt::format("{}", report.usd_per_1t_tokens(point))
                                 : std::string();
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", ++rank,
        is_on_front(report, point), csv_cell(report.layout_of(point)), c.tp, c.pp, c.cp, c.ep,
        c.vpp, c.dp_replicate, c.dp_shard, c.zero_stage, c.sequence_parallel, csv_cell(c.schedule),
        c.micro_batch_size, c.num_microbatches, to_string(c.recompute), point.step_time_s,
        point.tokens_per_s_per_gpu, point.mfu, point.compute_s, point.exposed_comm_s,
        point.bubble_s, point.host_s, point.peak_bytes, point.device_bytes, cost);
  }
  return text;
}

}  // namespace shardsim
