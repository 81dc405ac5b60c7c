#include "backends/program/repeat_text.hpp"

#include <algorithm>
#include <utility>

namespace shardsim {

RepeatReader::RepeatReader(const ProgramWriter& program, const Repeats::Work& work)
    : program_(program), at_(end()) {
  note(RepeatSource::Kind::used, work.used);
  note(RepeatSource::Kind::kept, work.kept);
}

void RepeatReader::asked(int question, std::size_t begin, const Tensor& answer) {
  read_until(begin);
  text_.items.push_back(
      {.kind = RepeatItem::Kind::ask, .row = static_cast<std::uint32_t>(question)});
  skip_until(end());
  const RepeatSource source{RepeatSource::Kind::answer, text_.num_answers++};
  if (answer.allocation_mark() != 0) own_.try_emplace(answer.allocation_mark() - 1, source);
}

RepeatText RepeatReader::finish(const Repeats::Work& work, const Tensor& output) {
  read_until(end());
  for (const Tensor& tensor : work.kept) text_.kept.push_back(output_of(tensor));
  text_.output = output_of(output);
  // Answers that are given on are held until then.
  if (frees_answers_ && text_.gives_answers) text_.can_repeat = false;
  if (!posted_.empty()) text_.can_repeat = false;  // Others wait for it.
  for (const auto& [_, source] : own_) {
    const bool is_own =
        source.kind == RepeatSource::Kind::made || source.kind == RepeatSource::Kind::kept;
    if (is_own && !has_output(source)) text_.can_repeat = false;  // Somebody else has it, too.
  }
  text_.leaves_hidden = std::ranges::any_of(
      text_.kept, [&](const RepeatOutput& kept) { return text_.is_hidden(kept.source); });
  finish_items();
  return std::move(text_);
}

void RepeatReader::finish_items() {
  for (RepeatItem& item : text_.items) {
    const bool makes = item.kind == RepeatItem::Kind::allocate &&
                       text_.output.source == RepeatSource{RepeatSource::Kind::made, item.number};
    if (makes) item.kind = RepeatItem::Kind::make;
  }
  std::uint32_t alone = 0;
  for (auto item = text_.items.rbegin(); item != text_.items.rend(); ++item) {
    alone = item->is_alone() ? alone + 1 : 0;
    item->num_alone = alone;
  }
}

void RepeatReader::note(RepeatSource::Kind kind, std::span<const Tensor> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const AllocationMark mark = tensors[i].allocation_mark();
    if (mark != 0) own_.try_emplace(mark - 1, RepeatSource{kind, static_cast<std::uint32_t>(i)});
  }
}

void RepeatReader::read_until(std::size_t until) {
  for (; at_ < until; ++at_) text_.items.push_back(item_of(program_.step(at_)));
}

// Slots that others take, or put back, are not the work's.
void RepeatReader::skip_until(std::size_t until) {
  using Kind = ProgramStep::Kind;
  for (; at_ < until; ++at_) {
    const ProgramStep& step = program_.step(at_);
    if (step.kind != Kind::allocate && step.kind != Kind::release) continue;
    const auto found = own_.find(step.slot);
    if (found == own_.end()) continue;
    // An answer is theirs.
    if (found->second.kind != RepeatSource::Kind::answer) text_.can_repeat = false;
    frees_answers_ = true;
    own_.erase(found);
  }
}

RepeatItem RepeatReader::item_of(const ProgramStep& step) {
  using Kind = ProgramStep::Kind;
  switch (step.kind) {
    case Kind::allocate:
      own_[step.slot] = {RepeatSource::Kind::made, text_.num_allocations};
      return {RepeatItem::Kind::allocate, step.kind, text_.num_allocations++, step.row};
    case Kind::release:
      return release_of(step.slot);
    case Kind::post:
      posted_[step.slot] = text_.num_calls;
      return {RepeatItem::Kind::post, step.kind, text_.num_calls++, step.row};
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
RepeatItem RepeatReader::release_of(std::uint32_t slot) {
  const auto found = own_.find(slot);
  const RepeatSource source =
      found == own_.end() ? RepeatSource{RepeatSource::Kind::unknown} : found->second;
  if (found != own_.end()) own_.erase(found);
  const bool is_made = source.kind == RepeatSource::Kind::made;
  if (!is_made && source.kind != RepeatSource::Kind::kept) text_.can_repeat = false;
  return {is_made ? RepeatItem::Kind::release : RepeatItem::Kind::drop, ProgramStep::Kind::release,
          source.number};
}

RepeatItem RepeatReader::wait_of(const ProgramStep& step) {
  const bool waits = step.kind == ProgramStep::Kind::wait;
  const auto found = posted_.find(step.slot);
  if (found == posted_.end()) {
    text_.can_repeat = false;
    return {.step = step.kind};
  }
  const RepeatItem item{waits ? RepeatItem::Kind::wait : RepeatItem::Kind::follow, step.kind,
                        found->second};
  if (waits) posted_.erase(found);
  return item;
}

RepeatOutput RepeatReader::output_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  RepeatOutput output{{}, tensor.offset_bytes(), tensor.shape(), tensor.dtype()};
  const AllocationMark mark = tensor.allocation_mark();
  const auto found = mark == 0 ? own_.end() : own_.find(mark - 1);
  if (found == own_.end()) {
    text_.can_repeat = false;
    return output;
  }
  output.source = found->second;
  if (output.source.kind == RepeatSource::Kind::answer) text_.gives_answers = true;
  if (output.source.kind == RepeatSource::Kind::kept) text_.passes_kept_on = true;
  return output;
}

bool RepeatReader::has_output(const RepeatSource& source) const {
  const auto is_source = [&](const RepeatOutput& output) { return output.source == source; };
  return is_source(text_.output) || std::ranges::any_of(text_.kept, is_source);
}

}  // namespace shardsim
