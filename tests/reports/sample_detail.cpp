#include "tests/reports/sample_detail.hpp"

namespace shardsim::samples {

RunDetail detail() {
  RunDetail detail;
  detail.stages = {{.stage = 0,
                    .rank = 1,
                    .compute_s = 0.1,
                    .exposed_comm_s = 0.02,
                    .bubble_s = 0.003,
                    .host_s = 0,
                    .peak_bytes = 15,
                    .at_peak = {1, 2, 3, 4, 5}},
                   {.stage = 1,
                    .rank = 2,
                    .compute_s = 1.0 / 3.0,
                    .exposed_comm_s = 0,
                    .bubble_s = 0,
                    .host_s = 0,
                    .peak_bytes = 1,
                    .at_peak = {1, 0, 0, 0, 0}}};
  detail.axes = {{"dp", 0.01, 0.5, 1000}, {"pp", 0.01, 0, 24}};
  detail.memory = {{.stage = 0, .rank = 1, .points = {{0.0, {1, 2, 3, 4, 5}}}}};
  detail.schedule.names = {"forward", "a \"quoted\", name"};
  detail.schedule.rows = {
      {.stage = 0,
       .rank = 1,
       .track = "compute",
       .bars = {{.name = 0, .chunk = 1, .microbatch = 2, .begin_s = 0, .end_s = 0.5},
                {.name = 1, .chunk = 0, .microbatch = -1, .begin_s = 0.5, .end_s = 0.6}}}};
  detail.traffic = {.ranks_per_cell = 2, .steps = 1, .cells = 2, .bytes = {0, 1000, 24, 0}};
  detail.links = {{.tier = "inside node",
                   .bytes = 1024,
                   .bandwidth_gb_per_s = 450,
                   .busiest_share = 0.25,
                   .busiest = "rank 3"}};
  detail.roofline.points = {
      {.name = "linear", .flops = 8, .bytes = 4, .time_s = 1e-05, .calls = 2}};
  detail.notes = {"Something was *thinned*."};
  return detail;
}

}  // namespace shardsim::samples
