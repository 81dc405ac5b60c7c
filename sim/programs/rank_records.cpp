#include "sim/programs/rank_records.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "backends/program/program_tables.hpp"

#include "sim/programs/last_step.hpp"
#include "sim/programs/program_reader.hpp"
#include "sim/programs/root_kinds.hpp"
#include "sim/programs/trace_groups.hpp"

namespace shardsim {

namespace {

struct Record {
  const TraceFile* file;
  ProgramHeader header;
  RankProgram program = {};
  std::vector<bool> uses = {};  // By number of the group.
  std::vector<int> made = {};   // Programs of the set that have its steps.

  [[nodiscard]] int rank() const { return *header.recorded; }
};

// "2, 3, 6 to 9".
std::string listed(const std::vector<int>& ranks) {
  constexpr int kMostRuns = 8;
  std::string text;
  int runs = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (++runs > kMostRuns) return fmt::format("{} and {} more", text, ranks.size() - i);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (end - i > 1) text += fmt::format("{}{}", end - i > 2 ? " to " : ", ", ranks[end - 1]);
    i = end;
  }
  return text;
}

class RecordMerger {
 public:
  explicit RecordMerger(const std::vector<TraceFile>& files) {
    for (const TraceFile& file : files) {
      records_.push_back({&file, read_record_head(file.bytes, file.path, lists_)});
    }
    std::ranges::stable_sort(records_, {}, [](const Record& record) { return record.rank(); });
    check_heads();
    groups_.emplace(lists_, num_ranks_);
  }

  ProgramSet merge() {
    for (Record& record : records_) read(record);
    for (std::size_t i = 0; i < records_.size(); ++i) add_to_class(i);
    choose_models();
    for (Record& record : records_) add_joins(record.program);
    std::vector<int> missing;
    for (int rank = 0; rank < num_ranks_; ++rank) {
      const std::optional<std::size_t> record = record_for(rank);
      if (record) {
        set_.programs.of_rank.push_back(program_of(records_[*record], rank));
      } else {
        missing.push_back(rank);
      }
    }
    require_all(missing);
    check_programs(set_.programs, "the records", groups_->num_splits());
    add_note();
    return std::move(set_);
  }

 private:
  // --- Files -----------------------------------------------------------------------------------

  void check_heads() {
    const ProgramHeader& first = records_.front().header;
    num_ranks_ = first.ranks;
    set_.name = first.name;
    set_.settings = first.settings;
    set_.programs.neighbours = first.neighbours;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const ProgramHeader& header = records_[i].header;
      if (header.ranks != first.ranks || !(header.settings == first.settings) ||
          header.neighbours != first.neighbours) {
        throw bad_program(
            records_[i].file->path,
            fmt::format("its header says other ranks or settings than {}", records_[0].file->path),
            "give records of one run");
      }
      if (i > 0 && records_[i].rank() == records_[i - 1].rank()) {
        throw bad_program(records_[i].file->path,
                          fmt::format("rank {} has a record already, in {}", records_[i].rank(),
                                      records_[i - 1].file->path),
                          "give one record of a rank");
      }
      for (const std::string& note : header.notes) {
        if (std::ranges::find(set_.notes, note) == set_.notes.end()) set_.notes.push_back(note);
      }
    }
  }

  void read(Record& record) {
    record.program =
        read_record(record.file->bytes, record.file->path, {*groups_, record.rank(), tables_});
    record.program.groups = groups_of(record.rank());
    record.uses.resize(record.program.groups.size());
    has_messages_.resize(record.program.groups.size());
    roots_.resize(record.program.groups.size());
    const StepRange last = last_step_of(record.program);
    for (std::size_t i = 0; i < record.program.steps.size(); ++i) {
      const ProgramStep& step = record.program.steps[i];
      if (step.kind != ProgramStep::Kind::post) continue;
      const ProgramCall& call = tables_->call(step.row);
      const auto group = static_cast<std::size_t>(call.group);
      record.uses[group] = true;
      if (call.kind != CallKind::collective) has_messages_[group] = true;
      // Roots that send parameters before the first step tell nothing about the steps.
      const bool is_in_step = last.begin <= i && i < last.end;
      if (call.kind == CallKind::collective && call.record.root >= 0 && is_in_step) {
        roots_[group].insert(call.record.root);
      }
    }
  }

  [[nodiscard]] std::vector<ProgramGroup> groups_of(int rank) const {
    std::vector<ProgramGroup> groups = {
        {.parent = -1, .name = kWholeWorld, .members = RankSpan::line(num_ranks_)}};
    for (std::size_t split = 0; split < groups_->num_splits(); ++split) {
      groups.push_back(groups_->group_in(split, rank));
    }
    return groups;
  }

  // All groups are formed first, by all ranks.
  static void add_joins(RankProgram& program) {
    std::vector<ProgramStep> joins;
    for (std::uint32_t group = 1; group < program.groups.size(); ++group) {
      joins.push_back({.kind = ProgramStep::Kind::join, .slot = 0, .row = group});
    }
    program.steps.insert(program.steps.begin(), joins.begin(), joins.end());
  }

  // --- Classes ---------------------------------------------------------------------------------

  // Where a rank is, as far as messages tell: ranks with equal keys do the same.
  [[nodiscard]] std::vector<int> key_of(int rank) const {
    std::vector<int> key;
    for (std::size_t group = 0; group < has_messages_.size(); ++group) {
      const int place = groups_->place_in(static_cast<int>(group), rank);
      key.push_back(has_messages_[group] ? place : std::min(place, 0));
    }
    return key;
  }

  // Ranks in the same places whose records may differ: those that are equal are one variant.
  struct Class {
    std::vector<std::vector<std::size_t>> variants;  // Records; the first has the steps of all.
    std::size_t num_records = 0;
  };

  // By group, the rank's place if it is the root of a step's calls there, else -1. The root of a
  // group of all ranks is one rank, and stands for no other.
  [[nodiscard]] std::vector<int> roots_at(int rank) const {
    std::vector<int> places;
    for (std::size_t group = 0; group < roots_.size(); ++group) {
      const int place = groups_->place_in(static_cast<int>(group), rank);
      const bool is_root = roots_[group].contains(place) && !has_all_ranks(group, rank);
      places.push_back(is_root ? place : -1);
    }
    return places;
  }
  [[nodiscard]] bool has_all_ranks(std::size_t group, int rank) const {
    return group == 0 || groups_->group_in(group - 1, rank).members.size == num_ranks_;
  }

  [[nodiscard]] std::vector<int> roots_if_told(int rank) const {
    const auto told = told_by_roots_.find(key_of(rank));
    if (told == told_by_roots_.end()) return {};
    std::vector<int> roots = roots_at(rank);
    return told->second.models.contains(roots) ? roots : told->second.most;
  }

  [[nodiscard]] static const std::vector<std::size_t>& most_of(const Class& found) {
    return *std::ranges::max_element(found.variants, {}, &std::vector<std::size_t>::size);
  }

  void add_to_class(std::size_t record) {
    Record& own = records_[record];
    Class& found = classes_[key_of(own.rank())];
    ++found.num_records;
    for (std::vector<std::size_t>& variant : found.variants) {
      if (own.program.steps != records_[variant.front()].program.steps) continue;
      own.program.steps = {};
      model_of_.push_back(variant.front());
      variant.push_back(record);
      return;
    }
    found.variants.push_back({record});
    model_of_.push_back(record);
  }

  // Ranks without a record do what most of those that were recorded do. The others, such as one
  // that writes a log, stand for themselves.
  void choose_models() {
    for (const auto& [key, found] : classes_) {
      std::optional<RootKinds> told = kinds_of_roots(
          found.variants, [this](std::size_t i) { return roots_at(records_[i].rank()); },
          [this, &of_class = key](const RootPlaces& roots) { return num_alike(of_class, roots); });
      if (told) {
        take_kinds(found, *told);
        told_by_roots_.emplace(key, *std::move(told));
        continue;
      }
      const std::vector<std::size_t>& most = most_of(found);
      models_.insert(most.begin(), most.end());
      if (found.variants.size() == 1) continue;
      const RankProgram& model = records_[most.front()].program;
      const bool is_most = 2 * most.size() > found.num_records;
      for (const std::vector<std::size_t>& variant : found.variants) {
        if (variant == most) continue;
        const Record& other = records_[variant.front()];
        const std::string difference = difference_of(model, other.program);
        if (!is_most && num_alike(key) > found.num_records) refuse(other, difference);
        note_other(variant, difference);
      }
    }
  }

  void note_other(const std::vector<std::size_t>& variant, const std::string& difference) {
    set_.notes.push_back(fmt::format(
        "rank {} does something else than most in the same places, and stands for {}: {}",
        records_[variant.front()].rank(), variant.size() == 1 ? "itself" : "those that do the same",
        difference));
  }

  void take_kinds(const Class& found, const RootKinds& told) {
    const RankProgram& first = records_[most_of(found).front()].program;
    for (const std::vector<std::size_t>& variant : found.variants) {
      const std::size_t num_before = models_.size();
      for (const std::size_t record : variant) {
        const std::size_t model = told.models.at(roots_at(records_[record].rank()));
        if (model == variant.front()) models_.insert(record);
      }
      if (variant == most_of(found)) continue;
      const std::string difference = difference_of(first, records_[variant.front()].program);
      if (models_.size() == num_before) {
        note_other(variant, difference);
        continue;
      }
      set_.notes.push_back(fmt::format(
          "ranks in the same places that are roots of calls do something else than those that are "
          "not, and each stands for its kind: {}",
          difference));
    }
  }

  // Ranks of a class, with these roots if they are given.
  [[nodiscard]] std::size_t num_alike(const std::vector<int>& key,
                                      const std::optional<std::vector<int>>& roots = {}) const {
    std::size_t count = 0;
    for (int rank = 0; rank < num_ranks_; ++rank) {
      if (key_of(rank) == key && (!roots || roots_at(rank) == *roots)) ++count;
    }
    return count;
  }

  [[noreturn]] static void refuse(const Record& other, const std::string& difference) {
    throw UsageError(
        "E1386", fmt::format("records of ranks that are in the same places differ: {}", difference),
        fmt::format("find out why rank {} does something else; if it should, record more ranks, so "
                    "that most are equal, or all",
                    other.rank()));
  }

  [[nodiscard]] bool can_do(const Record& record, int rank) const {
    for (std::size_t group = 0; group < has_messages_.size(); ++group) {
      const int place = groups_->place_in(static_cast<int>(group), rank);
      if (record.uses[group] && place < 0) return false;
      const int recorded = groups_->place_in(static_cast<int>(group), record.rank());
      if (has_messages_[group] && place != recorded) return false;
    }
    return told_by_roots_.empty() || key_of(rank) != key_of(record.rank()) ||
           roots_if_told(rank) == roots_if_told(record.rank());
  }

  // None: no record is good for the rank.
  [[nodiscard]] std::optional<std::size_t> record_for(int rank) const {
    std::vector<int> ranks;
    std::vector<std::size_t> models;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      if (records_[i].rank() == rank) return model_of_[i];
      if (!models_.contains(i) || !can_do(records_[i], rank)) continue;
      ranks.push_back(records_[i].rank());
      models.push_back(model_of_[i]);
    }
    if (ranks.empty()) return std::nullopt;
    return models[groups_->most_alike(rank, ranks)];
  }

  // The program with the record's steps and the groups of `rank`. Mostly it is one for all ranks:
  // groups of one kind have one form.
  int program_of(Record& record, int rank) {
    std::vector<ProgramGroup> groups = groups_of(rank);
    const auto are_these = [&groups](const std::vector<ProgramGroup>& others) {
      return std::ranges::equal(others, groups, {}, &ProgramGroup::members, &ProgramGroup::members);
    };
    std::vector<RankProgram>& programs = set_.programs.programs;
    for (const int made : record.made) {
      if (are_these(programs[static_cast<std::size_t>(made)].groups)) return made;
    }
    if (record.made.empty()) {
      programs.push_back(std::move(record.program));
    } else {
      programs.push_back(programs[static_cast<std::size_t>(record.made.front())]);
    }
    programs.back().rank = are_these(groups_of(record.rank())) ? record.rank() : rank;
    programs.back().groups = std::move(groups);
    record.made.push_back(static_cast<int>(programs.size()) - 1);
    return record.made.back();
  }

  void require_all(const std::vector<int>& missing) const {
    if (missing.empty()) return;
    std::map<std::vector<int>, int> firsts;
    for (const int rank : missing) firsts.try_emplace(key_of(rank), rank);
    std::vector<int> wanted;
    for (const auto& [_, rank] : firsts) wanted.push_back(rank);
    std::ranges::sort(wanted);
    throw UsageError(
        "E1383",
        fmt::format("nobody knows what ranks {} do: they have no record, and no recorded rank is "
                    "in their places of the groups over which messages go",
                    listed(missing)),
        fmt::format("record ranks {}, too, and give their files", listed(wanted)));
  }

  void add_note() {
    set_.notes.push_back(fmt::format(
        "{} of {} ranks were recorded: each of the others does what the recorded rank does that is "
        "in the same places of its groups",
        records_.size(), num_ranks_));
  }

  std::vector<Record> records_;  // By rank.
  int num_ranks_ = 0;
  GroupLists lists_;
  std::optional<TraceGroups> groups_;
  std::shared_ptr<ProgramTables> tables_ = std::make_shared<ProgramTables>();
  std::vector<bool> has_messages_;             // By number of the group.
  std::vector<std::set<int>> roots_;           // By number of the group: places, in the last step.
  std::map<std::vector<int>, Class> classes_;  // By key.
  std::map<std::vector<int>, RootKinds> told_by_roots_;  // By key: roots do something else.
  std::vector<std::size_t> model_of_;                    // By record, the first of its variant.
  std::set<std::size_t> models_;  // Records that stand for ranks without one.
  ProgramSet set_;
};

}  // namespace

ProgramSet merge_records(const std::vector<TraceFile>& files) {
  return RecordMerger(files).merge();
}

bool looks_like_record(std::string_view text) {
  if (!looks_like_program_file(text)) return false;
  const std::string_view header = text.substr(0, text.find('\n'));
  const ProgramJson json = ProgramJson::parse(header, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("recorded");
}

}  // namespace shardsim
