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

#include "scenarios/enumerations.hpp"

#include "sim/programs/program_rows.hpp"
#include "sim/programs/program_set.hpp"

namespace shardsim {

namespace {

// Reads line by line. Rows of the file are numbered as they come, and may be equal; rows of the
// tables are not.
class ProgramReader {
 public:
  ProgramReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  ProgramSet read() {
    while (!text_.empty()) {
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      const std::string_view line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++line_;
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) read_line(line);
    }
    if (!has_header_) refuse("there is no header", "begin with {\"shardsim_program\": 1, ...}");
    if (set_.programs.programs.empty()) refuse("there is no program", "add {\"program\": ...}");
    const auto none = std::ranges::find(set_.programs.of_rank, -1);
    if (none != set_.programs.of_rank.end()) {
      refuse(fmt::format("rank {} has no program", none - set_.programs.of_rank.begin()),
             "name each rank in \"ranks\" of one program");
    }
    check_programs(set_.programs, path_);
    return std::move(set_);
  }

 private:
  [[nodiscard]] std::string place() const { return fmt::format("{}:{}", path_, line_); }
  [[noreturn]] void refuse(const std::string& cause, const std::string& fix) const {
    throw bad_program(place(), cause, fix);
  }

  void read_line(std::string_view line) {
    const ProgramJson json = ProgramJson::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.empty()) {
      refuse("the line is no JSON object", "write one object in each line");
    }
    if (!std::exchange(has_header_, true)) return read_header(json);
    if (json.size() != 1) refuse("the line has several keys", "write one row or program in each");
    const std::string& key = json.items().begin().key();
    const ProgramJson& value = json.front();
    if (key == "steps") return read_steps(value);
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
    const ProgramJson* const version = fields.find(kProgramVersionKey);
    if (version == nullptr || !version->is_number_integer() || *version != kProgramVersion) {
      refuse("this is no program file of version 1",
             "begin with {\"shardsim_program\": 1, ...}, or export it again");
    }
    if (fields.has("name")) set_.name = fields.text("name");
    const std::int64_t ranks = fields.number("ranks", 1, kMostProgramRanks);
    set_.programs.of_rank.assign(static_cast<std::size_t>(ranks), -1);
    set_.programs.neighbours =
        static_cast<int>(fields.number_or(1, "neighbours", 1, kMostProgramRanks));
    set_.settings.buffered_sends = fields.truth("buffered_sends");
    set_.settings.attention_drops = fields.truth("attention_drops");
    set_.settings.overlap_is_recorded = fields.truth("overlap_is_recorded");
    if (fields.has("all_reduce_algorithm")) {
      set_.settings.all_reduce_algorithm =
          fields.choice<Algorithm>("all_reduce_algorithm", kAllReduceNames);
    }
    if (const ProgramJson* const notes = fields.find("notes")) {
      for (const ProgramJson& note : fields.array(*notes, "notes")) {
        if (!note.is_string()) refuse("a note is no text", "write a list of texts");
        set_.notes.push_back(note);
      }
    }
    fields.end();
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
      calls_.push_back(tables_->add(program_call_of(fields, text)));
    } else if (key == "tally") {
      text = fields.text("name");
      ProgramTally tally{text.c_str(), fields.number("first", 0, kMostTallyCounts),
                         fields.numbers("amounts", kMostProgramSize)};
      if (std::ssize(tally.amounts) > kMostTallyCounts) refuse("a tally is too long", "shorten it");
      tallies_.push_back(tables_->add(std::move(tally)));
    } else if (key == "mark") {
      marks_.push_back(tables_->add(program_mark_of(fields)));
    } else {
      refuse(fmt::format("a line is called \"{}\"", key),
             "write operation, hole, allocation, call, tally, mark, program or steps");
    }
  }

  void read_program(ProgramFields& fields) {
    const auto ranks = std::ssize(set_.programs.of_rank);
    RankProgram program{
        .rank = static_cast<int>(fields.number("rank", 0, ranks - 1)),
        .tables = tables_,
        .groups = {{.name = "world", .members = RankSpan::line(static_cast<int>(ranks))}},
        .steps = {}};
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
    if (const ProgramJson* const groups = fields.find("groups")) {
      for (const ProgramJson& group : fields.array(*groups, "groups")) {
        program.groups.push_back(program_group_of(group, place()));
      }
    }
    set_.programs.programs.push_back(std::move(program));
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
             "write c, h, t or m with a row, a or p with row:slot, r, f or w with a slot, j with a "
             "group, u with a stream, e or b with an event, or s; rows are counted from 0 in the "
             "order of the file");
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

  std::string_view text_;
  const std::string& path_;
  int line_ = 0;
  bool has_header_ = false;
  ProgramSet set_;
  std::shared_ptr<ProgramTables> tables_ = std::make_shared<ProgramTables>();
  std::vector<std::uint32_t> operations_;
  std::vector<std::uint32_t> holes_;
  std::vector<std::uint32_t> allocations_;
  std::vector<std::uint32_t> calls_;
  std::vector<std::uint32_t> tallies_;
  std::vector<std::uint32_t> marks_;
};

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
  return ProgramReader(text, path).read();
}

}  // namespace shardsim
