#include "backends/program/recorded_repeats.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace shardsim {

// --- Writing -----------------------------------------------------------------------------------

// Writes the steps of a text for the tensors of another work.
class RecordedRepeats::Writing {
 public:
  Writing(RecordedRepeats& repeats, const Known& known, Work& work)
      : repeats_(repeats),
        writer_(repeats.writer_),
        known_(known),
        text_(known.text),
        work_(work),
        held_(repeats.held_in(work.kept)),
        asks_(!work.need_not_ask || text_.gives_answers) {
    repeats_.slots_.assign(text_.num_allocations, kTaken);
    repeats_.calls_.resize(text_.num_calls);
    if (held_ == nullptr) given_.swap(work.kept);
    work.kept.clear();
  }

  [[nodiscard]] Tensor write() {
    const std::vector<RepeatItem>& items = text_.items;
    for (std::size_t at = 0; at < items.size();) {
      const std::size_t end = at + items[at].num_alone;
      if (end > at) write_alone(std::span(items).subspan(at, end - at));
      if (end < items.size()) write(items[end]);
      at = end + 1;
    }
    leave();
    require_taken();
    return std::move(output_);
  }

 private:
  // Steps that nobody else has a part in.
  void write_alone(std::span<const RepeatItem> items) {
    using Kind = RepeatItem::Kind;
    std::vector<std::uint32_t>& slots = repeats_.slots_;
    std::vector<std::uint32_t>& calls = repeats_.calls_;
    ProgramWriter::Again again(writer_, items.size());
    for (const RepeatItem& item : items) {
      switch (item.kind) {
        case Kind::allocate:
          slots[item.number] = again.allocate(item.row);
          break;
        case Kind::release:
          again.release(std::exchange(slots[item.number], kTaken));
          break;
        case Kind::post:
          calls[item.number] = again.post(item.row);
          break;
        case Kind::wait:
          again.wait(calls[item.number]);
          break;
        case Kind::follow:
          again.add(ProgramStep::Kind::follow, 0, calls[item.number]);
          break;
        default:
          again.add(item.step, item.row);
      }
    }
  }

  void write(const RepeatItem& item) {
    switch (item.kind) {
      case RepeatItem::Kind::ask:
        return ask(item);
      case RepeatItem::Kind::make:
        made_ = repeats_.make(item.row);
        return;
      default:
        return held_ == nullptr ? drop(given_, item.number) : drop_held(item.number);
    }
  }

  void ask(const RepeatItem& item) {
    if (!asks_) return;
    Tensor answer = work_.ask(static_cast<int>(item.row));
    if (text_.gives_answers) answers_.push_back(std::move(answer));
  }

  // All of the work's tensors of this allocation go.
  static void drop(std::vector<Tensor>& given, std::uint32_t number) {
    const Tensor last = std::exchange(given[number], Tensor());
    if (last.num_holders() == 1) return;
    for (Tensor& other : given) {
      if (other.shares_storage(last)) other = Tensor();
    }
    if (last.num_holders() > 1) throw RepeatsDiffer();
  }

  void drop_held(std::uint32_t number) {
    const RepeatText& giver = held_->giver->text;
    const RepeatSource source = giver.kept[number].source;
    if (!giver.is_hidden(source)) return drop(held_->tensors, giver.num_shown_before(number));
    const std::uint32_t slot = std::exchange(held_->slots[source.number], kTaken);
    if (slot == kTaken) throw RepeatsDiffer();
    writer_.release(slot);
  }

  // Puts what the work leaves behind into its output and into `kept`.
  void leave() {
    output_ = tensor_of(text_.output);
    std::vector<Tensor>* kept = &work_.kept;
    if (text_.leaves_hidden) {
      Held& held = repeats_.hold(work_.kept);
      held.giver = &known_;
      held.slots.swap(repeats_.slots_);
      kept = &held.tensors;
    }
    for (const RepeatOutput& output : text_.kept) {
      if (!text_.is_hidden(output.source)) kept->push_back(tensor_of(output));
    }
  }

  // A tensor that is left would go now, where the work that was run had let it go before.
  void require_taken() {
    const auto would_go = [](const Tensor& left) { return left.num_holders() == 1; };
    if (std::ranges::any_of(held_ == nullptr ? given_ : held_->tensors, would_go)) {
      throw RepeatsDiffer();
    }
    if (held_ == nullptr) return;
    if (std::ranges::any_of(held_->slots, [](std::uint32_t slot) { return slot != kTaken; })) {
      throw RepeatsDiffer();
    }
    repeats_.give_back(*held_);
  }

  [[nodiscard]] const Tensor& source_of(const RepeatSource& source) const {
    switch (source.kind) {
      case RepeatSource::Kind::made:
        return made_;
      case RepeatSource::Kind::used:
        return work_.used[source.number];
      case RepeatSource::Kind::kept:
        return given_[source.number];
      default:
        return answers_[source.number];
    }
  }

  [[nodiscard]] Tensor tensor_of(const RepeatOutput& output) const {
    if (output.source.kind == RepeatSource::Kind::none) return {};
    return source_of(output.source).reshaped(output.offset_bytes, output.shape, output.dtype);
  }

  RecordedRepeats& repeats_;
  ProgramWriter& writer_;
  const Known& known_;
  const RepeatText& text_;
  Work& work_;
  Held* held_;                 // Its tensors among `kept`,
  std::vector<Tensor> given_;  // or here, where that is null.
  Tensor made_;                // The allocation of its output, if it is the work's.
  Tensor output_;
  std::vector<Tensor> answers_;
  bool asks_;
};

// --- What is held ------------------------------------------------------------------------------

// A tensor without storage stands for all of them. Its offset, which no other tensor has below 0,
// tells their place.
RecordedRepeats::Held* RecordedRepeats::held_in(const std::vector<Tensor>& kept) {
  if (kept.size() != 1 || kept.front().offset_bytes() >= 0) return nullptr;
  Held& held = held_[static_cast<std::size_t>(-1 - kept.front().offset_bytes())];
  if (held.giver == nullptr) throw RepeatsDiffer();  // Taken already, through a copy of `kept`.
  return &held;
}

RecordedRepeats::Held& RecordedRepeats::hold(std::vector<Tensor>& kept) {
  if (free_.empty()) {
    free_.push_back(held_.size());
    held_.emplace_back();
  }
  const std::size_t place = free_.back();
  free_.pop_back();
  kept.assign(1, Tensor().reshaped(-1 - static_cast<std::int64_t>(place), {}, DType::int8));
  held_[place].place = place;
  return held_[place];
}

void RecordedRepeats::give_back(Held& held) {
  held.giver = nullptr;
  held.tensors.clear();
  free_.push_back(held.place);
}

Tensor RecordedRepeats::make(std::uint32_t row, std::uint32_t slot) {
  const ProgramAllocation& allocation = writer_.tables().allocation(row);
  MemoryLedger& ledger = allocation.on_host ? host_ledger_ : ledger_;
  if (slot != kTaken) writer_.expect_allocation(slot);
  return Tensor::allocate(&ledger, allocation.category, Shape{allocation.bytes}, DType::int8,
                          /*meta=*/true);
}

void RecordedRepeats::show(std::vector<Tensor>& kept) {
  Held* const held = held_in(kept);
  if (held == nullptr) return;
  const RepeatText& text = held->giver->text;
  std::vector<Tensor> made(text.num_allocations);
  for (const RepeatItem& item : text.items) {
    if (item.kind != RepeatItem::Kind::allocate || held->slots[item.number] == kTaken) continue;
    made[item.number] = make(item.row, held->slots[item.number]);
  }
  kept.clear();
  auto shown = held->tensors.begin();
  for (const RepeatOutput& output : text.kept) {
    const RepeatSource& source = output.source;
    kept.push_back(text.is_hidden(source) ? made[source.number].reshaped(output.offset_bytes,
                                                                         output.shape, output.dtype)
                                          : std::move(*shown++));
  }
  give_back(*held);
}

void RecordedRepeats::finish() const {
  if (free_.size() != held_.size()) throw RepeatsDiffer();
}

// --- Repeats -----------------------------------------------------------------------------------

namespace {

// As far as works are told apart by their tensors.
RepeatOutput size_of_tensor(const Tensor& tensor) {
  const RepeatSource source{tensor.defined() ? RepeatSource::Kind::unknown
                                             : RepeatSource::Kind::none};
  return {source, tensor.offset_bytes(), tensor.shape(), tensor.dtype()};
}
RepeatOutput size_of_tensor(RepeatOutput left) {
  if (left.source.kind != RepeatSource::Kind::none) left.source = {RepeatSource::Kind::unknown};
  return left;
}

}  // namespace

bool RecordedRepeats::has_sizes(Known& known, const Work& work) {
  const Held* const held = held_in(work.kept);
  const std::size_t num_kept = held == nullptr ? work.kept.size() : held->giver->text.kept.size();
  if (known.given.size() != work.used.size() + num_kept) return false;
  auto size = known.given.begin();
  const auto has_size = [&](const auto& tensor) { return size_of_tensor(tensor) == *size++; };
  if (!std::ranges::all_of(work.used, has_size)) return false;
  if (held == nullptr) return std::ranges::all_of(work.kept, has_size);
  if (held->giver == known.giver) return true;
  const bool fits = std::ranges::all_of(held->giver->text.kept, has_size);
  if (fits) known.giver = held->giver;
  return fits;
}

RecordedRepeats::Known& RecordedRepeats::known_of(Work& work) {
  std::deque<Known>& alike = known_[work.key];
  const auto found =
      std::ranges::find_if(alike, [&](Known& known) { return has_sizes(known, work); });
  if (found != alike.end()) return *found;
  constexpr std::size_t kMostSizes = 16;
  if (alike.size() == kMostSizes) throw RepeatsDiffer();
  Known& known = alike.emplace_back();
  show(work.kept);
  for (const std::span<const Tensor> tensors : {work.used, std::span<const Tensor>(work.kept)}) {
    for (const Tensor& tensor : tensors) known.given.push_back(size_of_tensor(tensor));
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
  if (runs(known, work)) {
    show(work.kept);
    return run_and_read(known, work);
  }
  if (known.text.passes_kept_on) show(work.kept);
  ++known.times;
  known.was_used = true;
  return Writing(*this, known, work).write();
}

Tensor RecordedRepeats::run_and_read(Known& known, Work& work) {
  if (known.times > 0 && !known.text.can_repeat) return work.run(work.ask);
  RepeatReader reading(writer_, work);
  const Ask ask = [&](int question) {
    const std::size_t begin = reading.end();
    Tensor answer = work.ask(question);
    reading.asked(question, begin, answer);
    return answer;
  };
  Tensor output = work.run(ask);
  RepeatText text = reading.finish(work, output);
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
