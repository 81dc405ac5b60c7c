#include "tests/harness_drawn/drawn_program.hpp"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

namespace shardsim::drawn {

namespace {

const char* kind_name(Statement::Kind kind) {
  switch (kind) {
    case Statement::Kind::split:
      return "split";
    case Statement::Kind::collective:
      return "collective";
    case Statement::Kind::message:
      return "message";
    case Statement::Kind::exchange:
      return "exchange";
    case Statement::Kind::tagged:
      return "tagged";
    case Statement::Kind::gather_any:
      break;
  }
  return "gather_any";
}

std::string line_of(const Statement& statement) {
  std::string text = fmt::format(
      "{} group {} form {} count {} dtype {} op {} root {} offset {} label {} delay {} waits {}",
      kind_name(statement.kind), statement.group, statement.form, statement.count, statement.dtype,
      statement.op, statement.root, statement.offset, statement.label, statement.delay,
      statement.waits);
  if (statement.uneven) text += " uneven";
  if (statement.in_place) text += " in_place";
  if (statement.scalar) text += " scalar";
  if (statement.after) text += " after";
  if (statement.reuse) text += " reuse";
  return text;
}

}  // namespace

bool DrawnProgram::has_open_receives() const {
  return std::ranges::any_of(statements, [](const Statement& statement) {
    return statement.kind == Statement::Kind::gather_any ||
           (statement.kind == Statement::Kind::tagged && statement.form % 3 == 0);
  });
}

std::string to_text(const DrawnProgram& program) {
  std::string text = fmt::format("{} ranks\n", program.ranks);
  int number = 0;
  for (const Statement& statement : program.statements) {
    text += fmt::format("  {}: {}\n", ++number, line_of(statement));
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const DrawnProgram& program) {
  return out << to_text(program);
}

}  // namespace shardsim::drawn
