#pragma once

#include <cstddef>

#include "backends/program/program.hpp"

namespace shardsim {

/// Places in RankProgram::steps.
struct StepRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The last training step that ends; all of a program that marks none.
[[nodiscard]] inline StepRange last_step_of(const RankProgram& program) {
  StepRange range{0, program.steps.size()};
  std::size_t begin = 0;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const ProgramStep& step = program.steps[i];
    if (step.kind != ProgramStep::Kind::mark) continue;
    const ProgramMark::Kind kind = program.tables->mark(step.row).kind;
    if (kind == ProgramMark::Kind::step_begins) begin = i;
    if (kind == ProgramMark::Kind::step_ends) range = {begin, i};
  }
  return range;
}

}  // namespace shardsim
