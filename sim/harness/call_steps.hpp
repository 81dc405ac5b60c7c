#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/call.hpp"

// Steps are what a rank does with its communicators. They travel between processes in this form,
// and so do shown tensors.
namespace shardsim {

/// One thing that a rank has done. Texts outlive it.
struct CallStep {
  enum class Kind : std::uint8_t {
    split,    ///< Makes a communicator of `group`; those that it joins are numbered as they come.
    call,     ///< Posts `record` in `group`; calls and messages are numbered together.
    message,  ///< Posts a send or a receive with a tag.
    wait,     ///< Waits for the call or message number `work`.
    any,      ///< Waits for the first of the works in `counts`.
    probe,    ///< Waits for a message of `peer` with `tag`, which stays.
    took,     ///< That receive has taken a message of `peer` with `tag`.
    drop,     ///< Drops its handle.
    close,    ///< Destroys the communicator `group`.
    refused,  ///< A call of it was refused: `report`.
    threw,    ///< It has thrown something else: its code, words and fix in `report`.
  };
  struct Half {
    bool sends = false;
    int peer = 0;
    DType dtype = DType::fp32;
    std::int64_t count = 0;
  };

  Kind kind = Kind::call;
  int group = 0;
  int work = 0;
  int color = 0;
  int key = 0;
  const char* name = "";  ///< The communicator's.
  CallKind call = CallKind::collective;
  CollectiveKind collective = collective::kBarrier;
  CallRecord record;  ///< Its site is that of a split, too.
  int after = -1;     ///< Number of the work that it comes behind.
  bool sends = false;
  int peer = -1;
  int tag = -1;
  std::vector<std::int64_t> counts;
  std::vector<ElementRange> padding_at;
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> recv_counts;
  std::vector<Half> halves;
  Diagnosis report;
};

/// Writes values as text of any bytes: whole numbers in as few as they need, texts once.
class StepWriter {
 public:
  template <class Number>
  requires std::integral<Number> || std::is_enum_v<Number>
  void operator()(const Number& number) { put(static_cast<std::int64_t>(number)); }
  void operator()(const double& number) { put(std::bit_cast<std::int64_t>(number)); }
  void operator()(const char* const& text) { put_text(text); }
  void operator()(const std::string& text) { put_text(text); }
  template <class Element>
  void operator()(const std::vector<Element>& all) {
    put(std::ssize(all));
    for (const Element& each : all) transfer(*this, each);
  }

  /// All that was written since the last time; texts that were written before are known.
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  void put(std::int64_t number);
  void put_text(std::string_view text);

  std::string text_;
  std::map<std::string, std::int64_t, std::less<>> known_;
};

/// Reads them again. Throws std::runtime_error for what nobody has written.
class StepReader {
 public:
  explicit StepReader(std::string_view text) : left_(text) {}

  [[nodiscard]] bool at_end() const { return left_.empty(); }
  template <class Number>
  requires std::integral<Number> || std::is_enum_v<Number>
  void operator()(Number& number) { number = static_cast<Number>(take()); }
  void operator()(double& number) { number = std::bit_cast<double>(take()); }
  /// Lasts as long as the process.
  void operator()(const char*& text);
  void operator()(std::string& text) { text = take_text(); }
  template <class Element>
  void operator()(std::vector<Element>& all) {
    const std::int64_t count = take();
    all.clear();
    for (std::int64_t i = 0; i < count; ++i) transfer(*this, all.emplace_back());
  }

 private:
  std::int64_t take();
  const std::string& take_text();

  std::string_view left_;
  std::vector<std::string> known_;
};

// One list of fields for both ways. `Step` is const where it is written.

template <class Archive, class Number>
requires std::is_arithmetic_v<std::remove_const_t<Number>> ||
    std::is_enum_v<std::remove_const_t<Number>>
void transfer(Archive& archive, Number& number) { archive(number); }

template <class Archive, class Site>
requires std::same_as<std::remove_const_t<Site>, CallSite>
void transfer(Archive& archive, Site& site) {
  archive(site.file);
  archive(site.line);
  archive(site.function);
}

template <class Archive, class Range>
requires std::same_as<std::remove_const_t<Range>, ElementRange>
void transfer(Archive& archive, Range& range) {
  archive(range.begin);
  archive(range.end);
}

template <class Archive, class Half>
requires std::same_as<std::remove_const_t<Half>, CallStep::Half>
void transfer(Archive& archive, Half& half) {
  archive(half.sends);
  archive(half.peer);
  archive(half.dtype);
  archive(half.count);
}

template <class Archive, class Side>
requires std::same_as<std::remove_const_t<Side>, DiagnosisSide>
void transfer(Archive& archive, Side& side) {
  archive(side.ranks);
  archive(side.action);
  transfer(archive, side.site);
}

template <class Archive, class Step>
requires std::same_as<std::remove_const_t<Step>, CallStep>
void transfer(Archive& archive, Step& step) {
  for (auto* const number : {&step.group, &step.work, &step.color, &step.key, &step.after,
                             &step.peer, &step.tag, &step.record.root, &step.record.tag}) {
    archive(*number);
  }
  archive(step.kind);
  archive(step.name);
  archive(step.call);
  archive(step.collective);
  archive(step.record.name);
  archive(step.record.reduce);
  archive(step.record.reduces);
  archive(step.record.dtype);
  archive(step.record.count);
  archive(step.record.label);
  archive(step.record.counts_hash);
  archive(step.record.padding);
  archive(step.record.traffic);
  transfer(archive, step.record.site);
  archive(step.sends);
  archive(step.counts);
  archive(step.padding_at);
  archive(step.send_counts);
  archive(step.recv_counts);
  archive(step.halves);
  archive(step.report.code);
  archive(step.report.summary);
  archive(step.report.group);
  archive(step.report.members);
  archive(step.report.sides);
  archive(step.report.hint);
}

}  // namespace shardsim
