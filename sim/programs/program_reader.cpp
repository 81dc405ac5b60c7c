#include "sim/programs/program_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/program/program_tables.hpp"

#include "sim/programs/program_rows.hpp"
#include "sim/programs/program_set.hpp"
#include "sim/programs/trace_link.hpp"

namespace shardsim {

// --- Lines -------------------------------------------------------------------------------------

bool ProgramLines::next(std::string_view& line) {
  while (!text_.empty()) {
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    line = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    ++line_;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return true;
  }
  return false;
}

ProgramJson ProgramLines::object(std::string_view line) const {
  ProgramJson json = ProgramJson::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.empty()) {
    refuse("the line is no JSON object", "write one object in each line");
  }
  return json;
}

std::string ProgramLines::place() const { return fmt::format("{}:{}", path_, line_); }

void ProgramLines::refuse(const std::string& cause, const std::string& fix) const {
  throw bad_program(place(), cause, fix);
}

namespace {

// Reads line by line. Rows of the file are numbered as they come, and may be equal; rows of the
// tables are not.
class ProgramReader {
 public:
  ProgramReader(std::string_view text, const std::string& path) : lines_(text, path) {}
  ProgramReader(std::string_view text, const std::string& path, const RecordScope& scope)
      : lines_(text, path), scope_(&scope), tables_(scope.tables) {}

  // Without what check_programs looks at.
  ProgramSet read() {
    std::string_view line;
    while (lines_.next(line)) read_line(line);
    if (!has_header_) refuse("there is no header", "begin with {\"shardsim_program\": 1, ...}");
    if (set_.programs.programs.empty()) refuse("there is no program", "add {\"program\": ...}");
    const auto none = std::ranges::find(set_.programs.of_rank, -1);
    if (none != set_.programs.of_rank.end() && scope_ == nullptr) {
      refuse(fmt::format("rank {} has no program", none - set_.programs.of_rank.begin()),
             "name each rank in \"ranks\" of one program");
    }
    return std::move(set_);
  }

 private:
  [[nodiscard]] std::string place() const { return lines_.place(); }
  [[noreturn]] void refuse(const std::string& cause, const std::string& fix) const {
    lines_.refuse(cause, fix);
  }

  void read_line(std::string_view line) {
    const ProgramJson json = lines_.object(line);
    if (!std::exchange(has_header_, true)) return read_header(json);
    if (json.size() != 1) refuse("the line has several keys", "write one row or program in each");
    const std::string& key = json.items().begin().key();
    const ProgramJson& value = json.front();
    if (key == "steps") return read_steps(value);
    if (key == "group" && scope_ != nullptr) return;  // It was read before.
    ProgramFields fields(value, place());
    if (key == "program") {
      read_program(fields);
    } else {
      read_row(key, fields);
    }
    fields.end();
  }

  void read_header(const ProgramJson& json) {
    ProgramFields fields(json, place());
    ProgramHeader header = program_header_of(fields);
    if (header.recorded && scope_ == nullptr) {
      refuse("this is the record of a single rank", "give it to shardsim replay with others");
    }
    set_.name = std::move(header.name);
    set_.settings = header.settings;
    set_.notes = std::move(header.notes);
    set_.programs.of_rank.assign(static_cast<std::size_t>(header.ranks), -1);
    set_.programs.neighbours = header.neighbours;
  }

  void read_row(const std::string& key, ProgramFields& fields) {
    std::string text;
    if (key == "operation") {
      text = fields.text("name");
      operations_.push_back(tables_->add(program_operation_of(fields, text)));
    } else if (key == "hole") {
      text = fields.text("name");
      const auto time = [&](const char* name) {
        return Time::from_picoseconds(fields.number_or(0, name, 0, kMostProgramWork));
      };
      const Time device = time("device_ps");
      holes_.push_back(tables_->add(ProgramHole{text.c_str(), device, time("host_ps")}));
    } else if (key == "allocation") {
      const std::size_t category = fields.choice("category", kNumMemoryCategories, [](auto i) {
        return name_of(static_cast<MemoryCategory>(i));
      });
      allocations_.push_back(tables_->add(
          ProgramAllocation{.category = static_cast<MemoryCategory>(category),
                            .on_host = fields.truth("on_host"),
                            .bytes = fields.number("bytes", 0, kMostProgramSize * kNumDTypes)}));
    } else if (key == "call") {
      ProgramCall call = program_call_of(fields, text);
      call.group = read_group(fields);
      calls_.push_back(tables_->add(std::move(call)));
    } else if (key == "tally") {
      text = fields.text("name");
      ProgramTally tally{text.c_str(), fields.number("first", 0, kMostTallyCounts),
                         fields.numbers("amounts", kMostProgramSize)};
      if (std::ssize(tally.amounts) > kMostTallyCounts) refuse("a tally is too long", "shorten it");
      tallies_.push_back(tables_->add(std::move(tally)));
    } else if (key == "mark") {
      marks_.push_back(tables_->add(program_mark_of(fields)));
    } else if (key == "place") {
      places_.push_back(tables_->add(program_place_of(fields, text)));
    } else {
      refuse(fmt::format("a line is called \"{}\"", key),
             "write operation, hole, allocation, call, tally, mark, place, program or steps");
    }
  }

  // The number of a call's group.
  int read_group(ProgramFields& fields) const {
    if (scope_ == nullptr) {
      return static_cast<int>(fields.number("group", 0, kMostProgramRanks));
    }
    return scope_->groups.number_of(fields.text("group"), scope_->rank, place());
  }

  void read_program(ProgramFields& fields) {
    const auto ranks = std::ssize(set_.programs.of_rank);
    RankProgram program{
        .rank = static_cast<int>(fields.number("rank", 0, ranks - 1)),
        .tables = tables_,
        .groups = {{.name = "world", .members = RankSpan::line(static_cast<int>(ranks))}},
        .steps = {}};
    if (scope_ == nullptr) {
      read_ranks(fields);
      read_groups(fields, program);
    } else if (program.rank != scope_->rank || !set_.programs.programs.empty()) {
      refuse(fmt::format("a program of rank {} is in the record of rank {}", program.rank,
                         scope_->rank),
             "write one program, of the rank that the header says");
    }
    set_.programs.programs.push_back(std::move(program));
  }

  void read_ranks(ProgramFields& fields) {
    const auto ranks = std::ssize(set_.programs.of_rank);
    const auto index = static_cast<int>(set_.programs.programs.size());
    for (const ProgramJson& run : fields.array(fields.at("ranks"), "ranks")) {
      if (!run.is_array() || run.size() != 2)
        refuse("a run of ranks is no pair", "write [first, count]");
      const std::int64_t first = fields.number(run[0], "ranks", 0, ranks - 1);
      const std::int64_t count = fields.number(run[1], "ranks", 1, ranks - first);
      for (std::int64_t rank = first; rank < first + count; ++rank) {
        int& of_rank = set_.programs.of_rank[static_cast<std::size_t>(rank)];
        if (of_rank >= 0) {
          refuse(fmt::format("rank {} has a program already", rank), "name each rank once");
        }
        of_rank = index;
      }
    }
  }

  void read_groups(ProgramFields& fields, RankProgram& program) const {
    const ProgramJson* const groups = fields.find("groups");
    if (groups == nullptr) return;
    for (const ProgramJson& group : fields.array(*groups, "groups")) {
      program.groups.push_back(program_group_of(group, place()));
    }
  }

  void read_steps(const ProgramJson& value) {
    if (set_.programs.programs.empty() || !value.is_string()) {
      refuse("steps belong to no program, or are no text",
             "put {\"steps\": \"...\"} after a program");
    }
    const std::string& steps = value.get_ref<const std::string&>();
    const char* at = steps.data();
    const char* const end = at + steps.size();
    while (at != end) {
      if (*at == ' ') {
        ++at;
        continue;
      }
      read_step(at, end);
    }
  }

  void read_step(const char*& at, const char* end) {
    const char* const begin = at;
    const auto bad = [&] {
      const std::string_view word(begin,
                                  static_cast<std::size_t>(std::find(begin, end, ' ') - begin));
      refuse(fmt::format("\"{}\" is no step", word.substr(0, 40)),
             "write c or h with a row or row:place, t or m with a row, a or p with row:slot, r, f "
             "or w "
             "with a slot, j with a group, u with a stream, e or b with an event, or s; rows are "
             "counted from 0 in the order of the file");
    };
    const auto number = [&] {
      std::uint32_t value = 0;
      const auto [stop, error] = std::from_chars(at, end, value);
      if (error != std::errc()) bad();
      at = stop;
      return value;
    };
    using Kind = ProgramStep::Kind;
    const std::size_t letter = kStepLetters.find(*at);
    if (letter == std::string_view::npos) bad();
    ++at;
    ProgramStep step{.kind = static_cast<Kind>(letter)};
    if (step.kind == Kind::join && scope_ != nullptr) {
      refuse("a record joins a group", "leave j out: all groups are formed before the first step");
    }
    if (step.kind == Kind::release || step.kind == Kind::follow || step.kind == Kind::wait) {
      step.slot = number();
    } else if (step.kind != Kind::synchronize) {
      step.row = number();
    }
    if (step.kind == Kind::allocate || step.kind == Kind::post) {
      if (at == end || *at != ':') bad();
      ++at;
      step.slot = number();
    }
    if ((step.kind == Kind::compute || step.kind == Kind::hole) && at != end && *at == ':') {
      ++at;
      const std::uint32_t place = number();
      if (place >= places_.size()) bad();
      step.slot = places_[place] + 1;
    }
    if (at != end && *at != ' ') bad();
    if (const std::vector<std::uint32_t>* const rows = rows_of(step.kind)) {
      if (step.row >= rows->size()) bad();
      step.row = (*rows)[step.row];
    }
    add_step(step);
  }

  // Numbers that are too high are refused when the steps are checked.
  void add_step(const ProgramStep& step) {
    using Kind = ProgramStep::Kind;
    RankProgram& program = set_.programs.programs.back();
    program.steps.push_back(step);
    const auto count = [](std::uint32_t& so_far, std::uint32_t number) {
      so_far = std::max(so_far, number + 1);
    };
    if (step.kind == Kind::post) count(program.num_works, step.slot);
    if (step.kind == Kind::allocate) count(program.num_allocations, step.slot);
    if (step.kind == Kind::use_stream) count(program.num_streams, step.row);
    if (step.kind == Kind::record_event) count(program.num_events, step.row);
  }

  // By row of the file, that of the tables; null: the step names none.
  [[nodiscard]] const std::vector<std::uint32_t>* rows_of(ProgramStep::Kind kind) const {
    using Kind = ProgramStep::Kind;
    switch (kind) {
      case Kind::compute:
        return &operations_;
      case Kind::hole:
        return &holes_;
      case Kind::allocate:
        return &allocations_;
      case Kind::post:
        return &calls_;
      case Kind::tally:
        return &tallies_;
      case Kind::mark:
        return &marks_;
      default:
        return nullptr;
    }
  }

  ProgramLines lines_;
  const RecordScope* scope_ = nullptr;  // Null: a file of all ranks.
  bool has_header_ = false;
  ProgramSet set_;
  std::shared_ptr<ProgramTables> tables_ = std::make_shared<ProgramTables>();
  std::vector<std::uint32_t> operations_;
  std::vector<std::uint32_t> holes_;
  std::vector<std::uint32_t> allocations_;
  std::vector<std::uint32_t> calls_;
  std::vector<std::uint32_t> tallies_;
  std::vector<std::uint32_t> marks_;
  std::vector<std::uint32_t> places_;
};

// Adds a group of a record to those that are known.
void add_list(ProgramFields& fields, int num_ranks, GroupLists& groups) {
  const std::string name = fields.text("name");
  std::vector<int> members;
  for (const ProgramJson& each : fields.array(fields.at("members"), "members")) {
    members.push_back(static_cast<int>(fields.number(each, "members", 0, num_ranks - 1)));
  }
  fields.end();
  if (members.empty()) fields.refuse("a group has no members", "leave it out");
  if (name == kWholeWorld && std::ssize(members) == num_ranks) return;  // It needs no line.
  if (name == kWholeWorld) {
    fields.refuse("group \"world\" has not all ranks", "give the group another name");
  }
  const auto [found, is_new] = groups.try_emplace(name, members);
  if (is_new || found->second == members) return;
  fields.refuse("a group of this name has other members, in this record or in another",
                "give each group a name of its own");
}

}  // namespace

UsageError bad_program(const std::string& place, const std::string& cause, const std::string& fix) {
  return {"E1378", place + ": " + cause, fix};
}

bool looks_like_program_file(std::string_view text) {
  constexpr std::size_t kHead = 200;
  return text.substr(0, kHead).find(fmt::format("\"{}\"", kProgramVersionKey)) !=
         std::string_view::npos;
}

ProgramSet read_program_file(std::string_view text, const std::string& path) {
  ProgramSet set = ProgramReader(text, path).read();
  check_programs(set.programs, path);
  return set;
}

// --- Records -----------------------------------------------------------------------------------

ProgramHeader read_record_head(std::string_view text, const std::string& path, GroupLists& groups) {
  ProgramLines lines(text, path);
  std::string_view line;
  if (!lines.next(line)) {
    lines.refuse("there is no header", "begin with {\"shardsim_program\": 1, ...}");
  }
  const ProgramJson json = lines.object(line);
  ProgramFields fields(json, lines.place());
  ProgramHeader header = program_header_of(fields);
  if (!header.recorded) {
    fields.refuse("this is no record of a single rank",
                  "give one file of all ranks, or records only: their header says \"recorded\"");
  }
  while (lines.next(line)) {
    // Calls and programs have groups, too, and most of the text is steps.
    if (line.find("\"group\"") == std::string_view::npos) continue;
    const ProgramJson row = lines.object(line);
    if (!row.contains("group")) continue;
    ProgramFields group(row.front(), lines.place());
    add_list(group, header.ranks, groups);
  }
  return header;
}

RankProgram read_record(std::string_view text, const std::string& path, const RecordScope& scope) {
  return std::move(ProgramReader(text, path, scope).read().programs.programs.front());
}

}  // namespace shardsim
