#include "sim/harness/shown_figures.hpp"

#include <algorithm>

#include "sim/harness/call_steps.hpp"

namespace shardsim {

namespace {

// Fields of a shown tensor, for both ways; its rank is known.
template <class Archive, class Piece>
void transfer_piece(Archive& archive, Piece& piece) {
  archive(piece.what);
  archive(piece.name);
  archive(piece.step);
  archive(piece.microbatch);
  archive(piece.first);
  archive(piece.whole);
  archive(piece.values);
  transfer(archive, piece.site);
}

using GroupNames = std::vector<std::pair<std::string, int>>;

void read_figures(int rank, const std::string& text, ProgramRun& run, GroupNames& groups) {
  StepReader reader(text);
  reader(run.bytes_sent.emplace_back());
  reader(run.peak_bytes.emplace_back());
  std::int64_t number = 0;
  for (reader(number); number > 0; --number) {
    ShownState::Piece piece{.rank = rank};
    transfer_piece(reader, piece);
    run.shown.add(std::move(piece));
  }
  for (reader(number); number > 0; --number) {
    std::int64_t samples = 0;
    reader(samples);
    run.shown.add_share(rank, samples);
  }
  for (reader(number); number > 0; --number) {
    std::pair<std::string, int> group;
    reader(group.first);
    reader(group.second);
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(std::move(group));
  }
}

}  // namespace

std::string to_text(const ShownFigures& figures) {
  StepWriter writer;
  writer(figures.bytes_sent);
  writer(figures.peak_bytes);
  writer(std::ssize(figures.shown.pieces()));
  for (const ShownState::Piece& piece : figures.shown.pieces()) transfer_piece(writer, piece);
  writer(std::ssize(figures.shown.shares()));
  for (const auto& [_, samples] : figures.shown.shares()) writer(samples);
  writer(std::ssize(figures.groups));
  for (const auto& [name, size] : figures.groups) {
    writer(name);
    writer(size);
  }
  return writer.take();
}

ProgramRun run_of(const std::vector<std::string>& texts) {
  ProgramRun run;
  GroupNames groups;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    read_figures(static_cast<int>(rank), texts[rank], run, groups);
  }
  run.shown.set_groups(std::move(groups));
  return run;
}

}  // namespace shardsim
