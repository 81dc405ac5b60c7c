#include "backends/program/recorded_repeats.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace shardsim {

// --- Reading -----------------------------------------------------------------------------------

// Reads the text of a work that runs: the steps that it writes, in terms of its own tensors.
class RecordedRepeats::Reading {
 public:
  Reading(const ProgramWriter& program, const Work& work) : program_(program), at_(end()) {
    note(Source::Kind::used, work.used);
    note(Source::Kind::kept, work.kept);
  }

  // A question was answered by all that has been written since `begin`.
  void asked(int question, std::size_t begin, const Tensor& answer) {
    read_until(begin);
    text_.items.push_back({.kind = Item::Kind::ask, .row = static_cast<std::uint32_t>(question)});
    skip_until(end());
    const Source source{Source::Kind::answer, text_.num_answers++};
    if (answer.allocation_mark() != 0) own_.try_emplace(answer.allocation_mark() - 1, source);
  }

  [[nodiscard]] Text finish(const Work& work, const Tensor& output) {
    read_until(end());
    for (const Tensor& tensor : work.kept) text_.kept.push_back(output_of(tensor));
    text_.output = output_of(output);
    // Answers that are given on are held until then.
    if (frees_answers_ && text_.gives_answers) text_.can_repeat = false;
    if (!posted_.empty()) text_.can_repeat = false;  // Others wait for it.
    for (const auto& [_, source] : own_) {
      const bool is_own = source.kind == Source::Kind::made || source.kind == Source::Kind::kept;
      if (is_own && !has_output(source)) text_.can_repeat = false;  // Somebody else has it, too.
    }
    for (Item& item : text_.items) {
      const bool makes =
          item.kind == Item::Kind::allocate && has_output({Source::Kind::made, item.number});
      if (makes) item.kind = Item::Kind::make;
    }
    std::uint32_t alone = 0;
    for (auto item = text_.items.rbegin(); item != text_.items.rend(); ++item) {
      alone = item->is_alone() ? alone + 1 : 0;
      item->num_alone = alone;
    }
    return std::move(text_);
  }

  [[nodiscard]] std::size_t end() const { return program_.num_steps(); }

 private:
  void note(Source::Kind kind, const std::vector<Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const AllocationMark mark = tensors[i].allocation_mark();
      if (mark != 0) own_.try_emplace(mark - 1, Source{kind, static_cast<std::uint32_t>(i)});
    }
  }

  void read_until(std::size_t until) {
    for (; at_ < until; ++at_) text_.items.push_back(item_of(program_.step(at_)));
  }
  // Slots that others take, or put back, are not the work's.
  void skip_until(std::size_t until) {
    using Kind = ProgramStep::Kind;
    for (; at_ < until; ++at_) {
      const ProgramStep& step = program_.step(at_);
      if (step.kind != Kind::allocate && step.kind != Kind::release) continue;
      const auto found = own_.find(step.slot);
      if (found == own_.end()) continue;
      // An answer is theirs.
      if (found->second.kind != Source::Kind::answer) text_.can_repeat = false;
      frees_answers_ = true;
      own_.erase(found);
    }
  }

  [[nodiscard]] Item item_of(const ProgramStep& step) {
    using Kind = ProgramStep::Kind;
    switch (step.kind) {
      case Kind::allocate:
        own_[step.slot] = {Source::Kind::made, text_.num_allocations};
        return {Item::Kind::allocate, step.kind, text_.num_allocations++, step.row};
      case Kind::release:
        return release_of(step.slot);
      case Kind::post:
        posted_[step.slot] = text_.num_calls;
        return {Item::Kind::post, step.kind, text_.num_calls++, step.row};
      case Kind::follow:
      case Kind::wait:
        return wait_of(step);
      case Kind::join:
      case Kind::mark:
      case Kind::use_stream:
      case Kind::record_event:
      case Kind::wait_event:
        text_.can_repeat = false;
        break;
      case Kind::compute:
      case Kind::hole:
      case Kind::synchronize:
      case Kind::tally:
        break;
    }
    return {.step = step.kind, .row = step.row};
  }

  // Only tensors that were made here, or given to be changed, may go by the work's own hand.
  [[nodiscard]] Item release_of(std::uint32_t slot) {
    const auto found = own_.find(slot);
    const Source source = found == own_.end() ? Source{Source::Kind::unknown} : found->second;
    if (found != own_.end()) own_.erase(found);
    const bool is_made = source.kind == Source::Kind::made;
    if (!is_made && source.kind != Source::Kind::kept) text_.can_repeat = false;
    return {is_made ? Item::Kind::release : Item::Kind::drop, ProgramStep::Kind::release,
            source.number};
  }

  [[nodiscard]] Item wait_of(const ProgramStep& step) {
    const bool waits = step.kind == ProgramStep::Kind::wait;
    const auto found = posted_.find(step.slot);
    if (found == posted_.end()) {
      text_.can_repeat = false;
      return {.step = step.kind};
    }
    const Item item{waits ? Item::Kind::wait : Item::Kind::follow, step.kind, found->second};
    if (waits) posted_.erase(found);
    return item;
  }

  [[nodiscard]] Output output_of(const Tensor& tensor) {
    if (!tensor.defined()) return {};
    Output output{{}, tensor.offset_bytes(), tensor.shape(), tensor.dtype()};
    const AllocationMark mark = tensor.allocation_mark();
    const auto found = mark == 0 ? own_.end() : own_.find(mark - 1);
    if (found == own_.end()) {
      text_.can_repeat = false;
      return output;
    }
    output.source = found->second;
    if (output.source.kind == Source::Kind::answer) text_.gives_answers = true;
    return output;
  }

  [[nodiscard]] bool has_output(const Source& source) const {
    const auto is_source = [&](const Output& output) { return output.source == source; };
    return is_source(text_.output) || std::ranges::any_of(text_.kept, is_source);
  }

  const ProgramWriter& program_;
  std::size_t at_;
  Text text_;
  bool frees_answers_ = false;
  std::map<std::uint32_t, Source> own_;            // By slot.
  std::map<std::uint32_t, std::uint32_t> posted_;  // By slot, which call.
};

// --- Writing -----------------------------------------------------------------------------------

// Writes the steps of a text for the tensors of another work.
class RecordedRepeats::Writing {
 public:
  Writing(RecordedRepeats& repeats, const Text& text, Work& work)
      : repeats_(repeats),
        writer_(repeats.writer_),
        text_(text),
        work_(work),
        slots_(text.num_allocations),
        made_(text.num_allocations),
        calls_(text.num_calls),
        asks_(!work.need_not_ask || text.gives_answers) {
    given_.swap(work.kept);
    work_.kept.reserve(text_.kept.size());
  }

  [[nodiscard]] Tensor write() {
    const std::vector<Item>& items = text_.items;
    for (std::size_t at = 0; at < items.size();) {
      const std::size_t end = at + items[at].num_alone;
      if (end > at) write_alone(std::span(items).subspan(at, end - at));
      if (end < items.size()) write(items[end]);
      at = end + 1;
    }
    for (const Output& output : text_.kept) work_.kept.push_back(tensor_of(output));
    Tensor made = tensor_of(text_.output);
    for (const Tensor& left : given_) {
      // It would go now, where the work that was run had let it go before.
      if (left.num_holders() == 1) throw RepeatsDiffer();
    }
    return made;
  }

 private:
  // Steps that nobody else has a part in.
  void write_alone(std::span<const Item> items) {
    ProgramWriter::Again again(writer_, items.size());
    for (const Item& item : items) {
      switch (item.kind) {
        case Item::Kind::allocate:
          slots_[item.number] = again.allocate(item.row);
          break;
        case Item::Kind::release:
          again.release(slots_[item.number]);
          break;
        case Item::Kind::post:
          calls_[item.number] = again.post(item.row);
          break;
        case Item::Kind::wait:
          again.wait(calls_[item.number]);
          break;
        case Item::Kind::follow:
          again.add(ProgramStep::Kind::follow, 0, calls_[item.number]);
          break;
        default:
          again.add(item.step, item.row);
      }
    }
  }

  void write(const Item& item) {
    switch (item.kind) {
      case Item::Kind::ask:
        return ask(item);
      case Item::Kind::make:
        return make(item);
      default:
        return drop(item.number);
    }
  }

  void ask(const Item& item) {
    if (!asks_) return;
    Tensor answer = work_.ask(static_cast<int>(item.row));
    if (text_.gives_answers) answers_.push_back(std::move(answer));
  }

  void make(const Item& item) {
    const ProgramAllocation& allocation = writer_.tables().allocation(item.row);
    MemoryLedger& ledger = allocation.on_host ? repeats_.host_ledger_ : repeats_.ledger_;
    made_[item.number] = Tensor::allocate(&ledger, allocation.category, Shape{allocation.bytes},
                                          DType::int8, /*meta=*/true);
  }

  // All of the work's tensors of this allocation go.
  void drop(std::uint32_t number) {
    const Tensor last = std::exchange(given_[number], Tensor());
    if (last.num_holders() == 1) return;
    for (Tensor& other : given_) {
      if (other.shares_storage(last)) other = Tensor();
    }
    if (last.num_holders() > 1) throw RepeatsDiffer();
  }

  [[nodiscard]] const Tensor& source_of(const Source& source) const {
    switch (source.kind) {
      case Source::Kind::made:
        return made_[source.number];
      case Source::Kind::used:
        return work_.used[source.number];
      case Source::Kind::kept:
        return given_[source.number];
      default:
        return answers_[source.number];
    }
  }

  [[nodiscard]] Tensor tensor_of(const Output& output) const {
    if (output.source.kind == Source::Kind::none) return {};
    return source_of(output.source).reshaped(output.offset_bytes, output.shape, output.dtype);
  }

  RecordedRepeats& repeats_;
  ProgramWriter& writer_;
  const Text& text_;
  Work& work_;
  std::vector<Tensor> given_;
  std::vector<std::uint32_t> slots_;  // By allocation that the work frees,
  std::vector<Tensor> made_;          // or leaves behind.
  std::vector<std::uint32_t> calls_;
  std::vector<Tensor> answers_;
  bool asks_;
};

// --- Repeats -----------------------------------------------------------------------------------

RecordedRepeats::Known& RecordedRepeats::known_of(const Work& work) {
  const std::array<const std::vector<Tensor>*, 2> given{&work.used, &work.kept};
  const auto size_of_tensor = [](const Tensor& tensor) {
    const Source source{tensor.defined() ? Source::Kind::unknown : Source::Kind::none};
    return Output{source, tensor.offset_bytes(), tensor.shape(), tensor.dtype()};
  };
  const auto has_sizes = [&](const Known& known) {
    if (known.given.size() != work.used.size() + work.kept.size()) return false;
    auto size = known.given.begin();
    return std::ranges::all_of(given, [&](const std::vector<Tensor>* tensors) {
      return std::ranges::all_of(
          *tensors, [&](const Tensor& tensor) { return size_of_tensor(tensor) == *size++; });
    });
  };
  std::deque<Known>& alike = known_[work.key];
  const auto found = std::ranges::find_if(alike, has_sizes);
  if (found != alike.end()) return *found;
  constexpr std::size_t kMostSizes = 16;
  if (alike.size() == kMostSizes) throw RepeatsDiffer();
  Known& known = alike.emplace_back();
  for (const std::vector<Tensor>* tensors : given) {
    for (const Tensor& tensor : *tensors) known.given.push_back(size_of_tensor(tensor));
  }
  return known;
}

// Often at first, for layers, microbatches and steps follow each other; and one of those that end a
// step.
bool RecordedRepeats::is_checked(const Known& known, bool is_last) {
  if (!known.text.can_repeat || known.times == 0) return true;
  return known.times == known.next_check || (is_last && !known.was_last_checked);
}

bool RecordedRepeats::runs(const Known& known, const Work& work) {
  const bool is_due = is_checked(known, work.is_last);
  if (work.pair < 0) return is_due;
  if (work.is_first) {
    if (is_due) half_run_.insert(work.pair);
    return is_due;
  }
  const bool must = half_run_.erase(work.pair) > 0;
  if (!must && (known.times == 0 || !known.text.can_repeat)) throw RepeatsDiffer();
  return must;
}

void RecordedRepeats::require_first_run(std::int64_t pair) {
  if (half_run_.erase(pair) == 0) throw RepeatsDiffer();
}

Tensor RecordedRepeats::run(Work& work) {
  Known& known = known_of(work);
  if (!work.is_last) known.was_last_checked = false;
  if (runs(known, work)) return run_and_read(known, work);
  ++known.times;
  known.was_used = true;
  return Writing(*this, known.text, work).write();
}

Tensor RecordedRepeats::run_and_read(Known& known, Work& work) {
  if (known.times > 0 && !known.text.can_repeat) return work.run(work.ask);
  Reading reading(writer_, work);
  const Ask ask = [&](int question) {
    const std::size_t begin = reading.end();
    Tensor answer = work.ask(question);
    reading.asked(question, begin, answer);
    return answer;
  };
  Tensor output = work.run(ask);
  Text text = reading.finish(work, output);
  known.was_last_checked = work.is_last;
  if (known.times >= known.next_check) {
    // Layers that take turns do so within the first few; later distances are not even.
    constexpr std::int64_t kAllOf = 8;
    known.next_check =
        known.times < kAllOf ? known.times + 1 : 4 * known.times + 1 + known.times % 3;
  }
  if (known.times++ == 0) {
    known.text = std::move(text);
  } else if (!(text == known.text)) {
    if (known.was_used) throw RepeatsDiffer();
    known.text.can_repeat = false;
  }
  return output;
}

}  // namespace shardsim
