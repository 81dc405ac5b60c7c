#pragma once

#include <vector>

#include "strategies/pipeline/schedule_row.hpp"

// Private to strategies/pipeline: the functions that rows of the table of schedules name. A
// function returns the compute actions of one rank or, where ranks cannot be written down alone, of
// all. It is defined in the file named after it, and may rely on the shape being one that its row
// allows.
namespace shardsim {

std::vector<Action> gpipe(const PipelineShape& shape, int rank);
std::vector<Action> one_forward_one_backward(const PipelineShape& shape, int rank);
std::vector<Action> interleaved(const PipelineShape& shape, int rank);
std::vector<Action> looped_bfs(const PipelineShape& shape, int rank);
int looped_bfs_sends_in_flight(const PipelineShape& shape);
std::vector<Action> zero_bubble_h1(const PipelineShape& shape, int rank);
std::vector<Action> zero_bubble_h2(const PipelineShape& shape, int rank);
std::vector<Action> zero_bubble_v(const PipelineShape& shape, int rank);
std::vector<std::vector<Action>> v_half(const PipelineShape& shape);
std::vector<std::vector<Action>> v_min(const PipelineShape& shape);
std::vector<Action> dualpipe_v(const PipelineShape& shape, int rank);

}  // namespace shardsim
