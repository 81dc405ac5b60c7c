#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

// What a rank does, in the order in which its host issues it: operators, allocations, streams,
// events and communication. Rows that come again and again are kept once.
namespace shardsim_torch {

/// A stream of the device, as PyTorch numbers them; those of groups begin at kGroupStreams.
using StreamNumber = std::int64_t;
inline constexpr StreamNumber kGroupStreams = std::int64_t{1} << 32;

enum class EntryKind : std::uint8_t {
  op,                 // row: operator; number: its place.
  allocate,           // number: of the allocation; amount: bytes.
  release,            // number: of the allocation.
  call,               // row: call; number: of its work; amount: the group's stream.
  wait,               // number: of the work that the stream waits for.
  record,             // number: of the event.
  block,              // number: of the event.
  synchronize,        // The host waits for the stream,
  synchronize_event,  // or for the event `number`.
  read,               // The host reads values; row: site. It waits for the stream, too.
  mark,               // row: text.
};

/// `stream` is the one that it belongs to.
struct Entry {
  EntryKind kind;
  StreamNumber stream = 0;
  std::int64_t row = 0;
  std::int64_t number = 0;
  std::int64_t amount = 0;
};

/// Texts with numbers, in the order of their first use.
class Table {
 public:
  std::int64_t row(const std::string& text) {
    const auto [found, is_new] = rows_.try_emplace(text, static_cast<std::int64_t>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return found->second;
  }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, std::int64_t> rows_;
  std::vector<std::string> texts_;
};

/// The record of this process. Threads of autograd write to it, too.
class Log {
 public:
  static Log& get();

  void add(Entry entry);
  void add_op(StreamNumber stream, const std::string& signature, std::int64_t place);
  void add_call(StreamNumber stream, const std::string& call, std::int64_t work,
                StreamNumber group_stream);
  void add_read(StreamNumber stream, const std::string& site);
  void add_mark(StreamNumber stream, const std::string& text);
  void set_on(bool is_on) {
    const std::lock_guard guard(mutex_);
    is_on_ = is_on;
  }

  // For whoever writes the file, when nothing runs any more.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] const Table& ops() const { return ops_; }
  [[nodiscard]] const Table& calls() const { return calls_; }
  [[nodiscard]] const Table& sites() const { return sites_; }
  [[nodiscard]] const Table& marks() const { return marks_; }
  /// Names of modules, whose numbers are one more than their rows.
  [[nodiscard]] const Table& modules() const { return modules_; }
  std::int64_t module_number(const std::string& path) {
    const std::lock_guard guard(mutex_);
    return modules_.row(path) + 1;
  }

 private:
  std::mutex mutex_;
  bool is_on_ = true;
  std::vector<Entry> entries_;
  Table ops_;
  Table calls_;
  Table sites_;
  Table marks_;
  Table modules_;
};

}  // namespace shardsim_torch
