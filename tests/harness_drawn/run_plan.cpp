#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "tests/harness_drawn/rank_plan.hpp"

// Runs a plan, and prints it.
namespace shardsim::drawn {

namespace {

constexpr std::array kDTypes = {DType::fp32, DType::bf16, DType::fp64, DType::int32, DType::int64};
constexpr std::array kLabels = {"", "a", "b", "c"};

// One rank at work.
class PlannedRank {
 public:
  PlannedRank(RankContext& context, const ProgramPlan& plan)
      : context_(context), plan_(plan.ranks[static_cast<std::size_t>(context.rank())]) {
    groups_.resize(plan.groups.size());
    buffers_.reserve(plan_.buffers.size());
    for (const BufferSize& size : plan_.buffers) {
      const Tensor buffer =
          context.runtime().allocate(MemoryCategory::comm, {size.count}, size.dtype);
      for (std::int64_t i = 0; i < size.count; ++i) {
        buffer.set(i, static_cast<double>(context.rank() + i + 1));
      }
      buffers_.push_back(buffer);
    }
  }

  void run() {
    for (const Action& action : plan_.actions) {
      if (action.kind == Action::Kind::call) {
        post(action);
      } else if (action.kind == Action::Kind::wait) {
        works_[action.work].wait();
        compare_early(action.work);
      } else {
        touch(action);
      }
    }
  }

 private:
  [[nodiscard]] Tensor tensor(const Elements& part) const {
    if (part.buffer < 0) return {};
    return buffers_[static_cast<std::size_t>(part.buffer)].view(part.first, Shape{part.count});
  }
  [[nodiscard]] P2pOp op_of(const PlannedHalf& half) const {
    return {half.sends ? P2pOp::Kind::send : P2pOp::Kind::recv, tensor(half.data), half.peer};
  }
  // Null: the rank is in no such group.
  Communicator* group(int number) {
    return number == 0 ? &context_.world() : groups_[static_cast<std::size_t>(number)].get();
  }

  void post(const Action& action) {
    const PlannedCall& call = action.call;
    const CallSite site{"drawn", call.statement, "rank"};
    Communicator* const group = this->group(call.group);
    if (group == nullptr) return;
    CallOptions options{.label = label_of(call.label), .traffic = call.traffic};
    if (call.after >= 0 && works_[call.after].pending()) options.after = &works_[call.after];
    Work& work = works_[action.work];
    switch (call.form) {
      case PlannedCall::Form::split:
        groups_[static_cast<std::size_t>(call.makes)] =
            group->split(call.color, call.key, fmt::format("g{}", call.makes), site);
        return;
      case PlannedCall::Form::collective:
        work = post_collective(*group, call, options, site);
        return;
      case PlannedCall::Form::message: {
        const PlannedHalf& half = call.halves.front();
        work = half.sends ? group->send(tensor(half.data), half.peer, options, site)
                          : group->recv(tensor(half.data), half.peer, options, site);
        return;
      }
      case PlannedCall::Form::batch: {
        std::vector<P2pOp> halves;
        for (const PlannedHalf& half : call.halves) halves.push_back(op_of(half));
        work = group->batch(halves, options, site);
        return;
      }
      case PlannedCall::Form::tagged:
        break;
    }
    const PlannedHalf& half = call.halves.front();
    TaggedMessages& messages = context_.messages();
    work = half.sends
               ? messages.send(tensor(half.data), half.peer, call.tag, options, site)
               : messages.recv(tensor(half.data), half.peer, call.tag, nullptr, options, site);
  }

  Work post_collective(Communicator& group, const PlannedCall& call, CallOptions& options,
                       CallSite site) {
    if (row_of(call.kind).path == CollectivePath::pairs) {
      return group.all_to_all(tensor(call.output), tensor(call.input), call.counts,
                              call.recv_counts, options, site);
    }
    options.counts = call.counts;
    return group.collective(call.kind, tensor(call.output), tensor(call.input), call.op, call.root,
                            options, site);
  }

  void touch(const Action& action) {
    const Tensor part = tensor(action.part);
    const CallSite site{"drawn", action.call.statement, "touch"};
    std::byte* const data = part.wire_data();  // As if the pointer were from before.
    switch (action.kind) {
      case Action::Kind::read:
        static_cast<void>(part.get(0, site));
        break;
      case Action::Kind::write:
        part.set(0, part.dtype() == DType::bf16 ? 1.0 : 3.0, site);
        break;
      case Action::Kind::write_same:
        data[0] = std::byte(data[0]);
        break;
      case Action::Kind::write_raw:
        data[0] ^= std::byte{0x11};
        break;
      case Action::Kind::read_raw:
        early_.push_back({action.work, part, {data, data + size_of(part.dtype())}});
        break;
      case Action::Kind::call:
      case Action::Kind::wait:
        break;
    }
  }

  struct EarlyRead {
    int work = 0;
    Tensor part;
    std::vector<std::byte> bytes;
  };
  void compare_early(int work) {
    for (const EarlyRead& read : early_) {
      if (read.work != work) continue;
      context_.require(std::equal(read.bytes.begin(), read.bytes.end(), read.part.wire_data()),
                       "what was read before the wait is what has come");
    }
  }

  RankContext& context_;
  const RankPlan& plan_;
  std::vector<Tensor> buffers_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::map<int, Work> works_;
  std::vector<EarlyRead> early_;
};

std::string text_of(const Elements& part) {
  return fmt::format("b{}[{}:{}]", part.buffer, part.first, part.first + part.count);
}

std::string text_of(const PlannedCall& call) {
  static constexpr std::array kForms = {"split", "collective", "message", "batch", "tagged"};
  std::string text = fmt::format("#{} {} group {}", call.statement,
                                 kForms[static_cast<std::size_t>(call.form)], call.group);
  if (call.form == PlannedCall::Form::split) {
    return text + fmt::format(" color {} key {} makes {}", call.color, call.key, call.makes);
  }
  if (call.form == PlannedCall::Form::collective) {
    text += fmt::format(" {} {} root {} output {} input {}", name_of(call.kind), name_of(call.op),
                        call.root, text_of(call.output), text_of(call.input));
    for (const std::int64_t count : call.counts) text += fmt::format(" {}", count);
  }
  for (const PlannedHalf& half : call.halves) {
    text += fmt::format(" {} {} {} tag {}", half.sends ? "send to" : "recv from", half.peer,
                        text_of(half.data), call.tag);
  }
  if (call.label != 0) text += fmt::format(" \"{}\"", label_of(call.label));
  if (call.after >= 0) text += fmt::format(" after w{}", call.after);
  return text;
}

}  // namespace

DType dtype_of(int number) { return kDTypes[static_cast<std::size_t>(number) % kDTypes.size()]; }

const char* label_of(int number) {
  return kLabels[static_cast<std::size_t>(number) % kLabels.size()];
}

Program program_of(const ProgramPlan& plan) {
  return [&plan](RankContext& context) {
    if (static_cast<std::size_t>(context.size()) != plan.ranks.size()) return;
    PlannedRank(context, plan).run();
  };
}

std::string to_text(const ProgramPlan& plan) {
  static constexpr std::array kNames = {"call",       "wait",      "read",    "write",
                                        "write_same", "write_raw", "read_raw"};
  std::string text;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    text += fmt::format("rank {}\n", rank);
    for (const Action& action : plan.ranks[rank].actions) {
      text += fmt::format("  {}", kNames[static_cast<std::size_t>(action.kind)]);
      if (action.kind == Action::Kind::call) {
        text += fmt::format(" w{} {}\n", action.work, text_of(action.call));
      } else if (action.kind == Action::Kind::wait) {
        text += fmt::format(" w{}\n", action.work);
      } else {
        text += fmt::format(" {}\n", text_of(action.part));
      }
    }
  }
  return text;
}

}  // namespace shardsim::drawn
