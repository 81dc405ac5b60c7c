#include "sim/harness/rank_context.hpp"

#include <algorithm>
#include <utility>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"

#include "sim/harness/shown_state.hpp"

namespace shardsim {

RankContext::RankContext(Runtime& runtime, Communicator& world, TaggedMessages& messages,
                         const Setting& setting, ShownState& shown)
    : runtime_(runtime), world_(world), messages_(messages), setting_(setting), shown_(shown) {}

std::int64_t RankContext::extent(std::string_view name) const {
  const auto found = std::ranges::find(setting_.extents, name, &Extent::name);
  if (found != setting_.extents.end()) return found->value;
  std::string known;
  for (const Extent& extent : setting_.extents) known += (known.empty() ? "" : ", ") + extent.name;
  throw UsageError("E1215", "the check has no extent \"" + std::string(name) + "\"",
                   known.empty() ? "give it in CheckOptions::extents, or draw it (Draws::extents)"
                                 : "it has: " + known);
}

Tensor RankContext::tensor(std::int64_t count, MemoryCategory category) {
  return runtime_.allocate(category, {count}, setting_.precision);
}

Tensor RankContext::tensor(std::int64_t count, const std::function<double(std::int64_t)>& value,
                           MemoryCategory category) {
  const Tensor filled = tensor(count, category);
  for (std::int64_t i = 0; filled.has_data() && i < count; ++i) filled.set(i, value(i));
  return filled;
}

double RankContext::draw(std::string_view name, std::int64_t index) const {
  RollingHash hash;
  hash.add(hash_text(name, setting_.seed));
  hash.add(index);
  // 53 bits are what a double holds.
  return static_cast<double>(hash.value() >> 11U) * 0x1p-52 - 1.0;
}

void RankContext::show(Shown what, const std::string& name, const Tensor& tensor,
                       const ShowOptions& options, CallSite site) {
  if (!tensor.defined()) {
    fail({.code = "ARG_RANGE",
          .summary = "show on rank " + std::to_string(rank()) + ": \"" + name +
                     "\" is an undefined tensor",
          .hint = kUndefinedTensorHint},
         "show " + name, site);
  }
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
  if (tensor.has_data()) load(tensor, values, site);
  show_values(what, name, std::move(values), options, site);
}

void RankContext::show(Shown what, const std::string& name, double value,
                       const ShowOptions& options, CallSite site) {
  show_values(what, name, {value}, options, site);
}

void RankContext::show_values(Shown what, const std::string& name, std::vector<double> values,
                              const ShowOptions& options, CallSite site) {
  const std::int64_t whole = options.whole < 0 ? std::ssize(values) : options.whole;
  shown_.add({.what = what,
              .name = name,
              .step = options.step,
              .microbatch = options.microbatch,
              .rank = rank(),
              .first = options.first,
              .whole = whole,
              .values = std::move(values),
              .site = site});
}

void RankContext::share_of_batch(std::int64_t samples) { shown_.add_share(rank(), samples); }

void RankContext::require(bool holds, const std::string& what, CallSite site) {
  if (holds) return;
  fail({.code = "CHECK_FAILED",
        .summary = "rank " + std::to_string(rank()) + ": " + what,
        .hint = "what the program itself requires does not hold"},
       "requires: " + what, site);
}

void RankContext::fail(Diagnosis diagnosis, std::string action, CallSite site) const {
  diagnosis.members = {rank()};
  diagnosis.sides = {{.ranks = {rank()}, .action = std::move(action), .site = site}};
  throw CommunicationError(std::move(diagnosis));
}

}  // namespace shardsim
