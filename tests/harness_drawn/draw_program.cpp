#include "tests/harness_drawn/draw_program.hpp"

#include "tests/draws.hpp"

namespace shardsim::drawn {

namespace {

constexpr int kMostRanks = 8;
constexpr int kMostStatements = 14;

int draw_below(int end) { return static_cast<int>(test::draw_in(0, end)); }

Statement draw_statement() {
  using Kind = Statement::Kind;
  Statement statement;
  statement.kind = *rc::gen::weightedElement<Kind>({{3, Kind::split},
                                                    {10, Kind::collective},
                                                    {2, Kind::message},
                                                    {1, Kind::exchange},
                                                    {1, Kind::tagged},
                                                    {1, Kind::gather_any}});
  statement.group = draw_below(4);
  statement.form = draw_below(36);
  statement.count = draw_below(6);
  statement.dtype = draw_below(5);
  statement.op = draw_below(5);
  statement.root = draw_below(8);
  statement.offset = draw_below(8);
  statement.label = draw_below(3) == 0 ? draw_below(4) : 0;
  statement.uneven = test::once_in(3);
  statement.in_place = test::once_in(2);
  statement.scalar = test::once_in(8);
  statement.after = test::once_in(4);
  statement.reuse = test::once_in(2);
  statement.delay = test::once_in(2) ? draw_below(5) : 0;
  statement.waits = draw_below(1000);
  // Calls that look alike are what real programs consist of: half have the plainest values.
  if (!test::once_in(2)) return statement;
  statement.count = 4;
  statement.dtype = statement.op = statement.label = 0;
  statement.uneven = statement.scalar = false;
  if (statement.kind == Kind::collective) statement.form = draw_below(2);
  return statement;
}

rc::Seq<DrawnProgram> smaller(const DrawnProgram& program) {
  std::vector<DrawnProgram> all;
  for (int ranks = 2; ranks < program.ranks; ++ranks) {
    all.push_back({ranks, program.statements});
  }
  const auto size = static_cast<std::ptrdiff_t>(program.statements.size());
  for (std::ptrdiff_t stretch = size; stretch > 0; stretch /= 2) {
    for (std::ptrdiff_t first = 0; first + stretch <= size; first += stretch) {
      DrawnProgram shorter = program;
      const auto begin = shorter.statements.begin() + first;
      shorter.statements.erase(begin, begin + stretch);
      all.push_back(std::move(shorter));
    }
  }
  for (std::size_t index = 0; index < program.statements.size(); ++index) {
    DrawnProgram plainer = program;
    Statement& statement = plainer.statements[index];
    const Statement old = statement;
    statement = {.kind = old.kind, .group = old.group, .form = old.form, .count = 1};
    if (!(statement == old)) all.push_back(plainer);
    statement = old;
    statement.delay = 0;
    if (!(statement == old)) all.push_back(plainer);
  }
  return rc::seq::fromContainer(std::move(all));
}

}  // namespace

rc::Gen<DrawnProgram> drawn_programs() {
  const auto draw = rc::gen::exec([] {
    DrawnProgram program;
    program.ranks = static_cast<int>(test::draw_in(2, kMostRanks + 1));
    const auto statements = test::draw_in(1, kMostStatements + 1);
    for (std::int64_t i = 0; i < statements; ++i) program.statements.push_back(draw_statement());
    return program;
  });
  // As a lambda: Clang takes no function by value here.
  const auto shrink = [](const DrawnProgram& program) { return smaller(program); };
  return rc::gen::shrink(rc::gen::noShrink(draw), shrink);
}

}  // namespace shardsim::drawn
