#include "strategies/model/activation_offload.hpp"

#include <algorithm>
#include <utility>

namespace shardsim {

namespace {

constexpr std::uint32_t kCompute = 0;
constexpr std::uint32_t kToHost = 1;
constexpr std::uint32_t kFromHost = 2;
constexpr std::uint32_t kNumStreams = 3;

// Each of two returns that are under way at once has its own.
enum Event : std::uint32_t { computed, left, returned, num_events = returned + 2 };

}  // namespace

ActivationOffload::ActivationOffload(const OffloadOptions& options, Runtime& runtime,
                                     const Model& model)
    : min_elements_(options.min_elements),
      runtime_(runtime),
      places_of_(index(model.num_modules())) {
  runtime.open_streams(kNumStreams, num_events);
  for (int chunk = 0; chunk < model.num_chunks(); ++chunk) {
    const ModuleRange modules = model.modules_of_chunk(chunk);
    std::int64_t left_over = options.layers;
    for (int module = modules.first; module < modules.first + modules.count; ++module) {
      const std::vector<OffloadModule> readers = model.readers_of_kept(module);
      if (readers.empty() || left_over-- <= 0) continue;
      for (const OffloadModule reader : readers) {
        places_of_[index(module)].push_back(options.modules.has(reader));
      }
    }
  }
}

template <typename Work>
void ActivationOffload::on_stream(std::uint32_t stream, std::uint32_t event, const Work& work) {
  runtime_.record_event(computed);
  runtime_.use_stream(stream);
  runtime_.wait_event(computed);
  work();
  runtime_.record_event(event);
  runtime_.use_stream(kCompute);
}

std::vector<ActivationOffload::Used> ActivationOffload::find_used(int module,
                                                                  const Saved& saved) const {
  std::vector<Used> found;
  const std::vector<bool>& goes_there = places_of_[index(module)];
  for (std::size_t at = 0; at < saved.size() && at < goes_there.size(); ++at) {
    const Tensor& each = saved[at];
    if (!goes_there[at] || !each.defined()) continue;
    const auto same = std::ranges::find_if(
        found, [&](const Used& used) { return used.bytes.shares_storage(each); });
    const Place place{at, each.offset_bytes(), each.shape(), each.dtype()};
    if (same == found.end()) {
      found.push_back({each, {place}});
    } else {
      same->places.push_back(place);
    }
  }
  std::erase_if(found, [](const Used& used) {
    // Others hold it, too: beside its places it is held here.
    return used.bytes.num_holders() != static_cast<int>(used.places.size()) + 1;
  });
  for (Used& used : found) {
    std::int64_t first = used.places.front().offset;
    std::int64_t end = first;
    for (const Place& place : used.places) {
      first = std::min(first, place.offset);
      end = std::max(end, place.offset + place.shape.numel() * size_of(place.dtype));
    }
    for (Place& place : used.places) place.offset -= first;
    const DType dtype = used.bytes.dtype();
    used.bytes = used.bytes.reshaped(first, {(end - first) / size_of(dtype)}, dtype);
  }
  std::erase_if(found, [&](const Used& used) { return used.bytes.numel() < min_elements_; });
  return found;
}

void ActivationOffload::after_forward(int module, Saved& saved) {
  finish_leaving();
  if (!goes(module)) return;
  std::vector<Used> used = find_used(module, saved);
  if (used.empty()) return;
  Away& away = away_.emplace_back();
  away.from = leaving_from_ = &saved;
  on_stream(kToHost, left, [&] {
    for (Used& each : used) {
      Tensor home = runtime_.allocate_on_host(MemoryCategory::activations, each.bytes.shape(),
                                              each.bytes.dtype());
      runtime_.copy_over_host_link("copy_to_host", home, each.bytes);
      for (const Place& place : each.places) saved[place.at] = {};
      away.gone.push_back({std::move(home), std::move(each.places)});
      leaving_.push_back(std::move(each.bytes));
    }
  });
}

void ActivationOffload::finish_leaving() {
  if (leaving_.empty()) return;
  runtime_.wait_event(left);
  leaving_.clear();
}

void ActivationOffload::before_backward(int module, std::span<Saved> saved) {
  // The last copies may go on leaving under this module, unless they are what comes back.
  const bool was_last = std::exchange(leaving_from_, nullptr) != nullptr;
  if (!was_last || (goes(module) && find_away(saved.back()) == away_.end() - 1)) finish_leaving();
  if (goes(module)) {
    begin_return(saved.back());
    finish_return(saved.back());
  }
  if (saved.size() > 1) begin_return(saved[saved.size() - 2]);
}

std::vector<ActivationOffload::Away>::iterator ActivationOffload::find_away(const Saved& saved) {
  return std::ranges::find(away_, &saved, &Away::from);
}

void ActivationOffload::begin_return(Saved& saved) {
  const auto found = find_away(saved);
  if (found == away_.end() || !found->returning.here.empty()) return;
  Returning& returning = found->returning;
  returning.event = returned + std::exchange(next_return_, 1 - next_return_);
  on_stream(kFromHost, returning.event, [&] {
    for (const Gone& each : found->gone) {
      returning.here.push_back(
          runtime_.allocate(MemoryCategory::activations, each.home.shape(), each.home.dtype()));
      runtime_.copy_over_host_link("copy_to_device", returning.here.back(), each.home);
    }
  });
}

void ActivationOffload::finish_return(Saved& saved) {
  const auto found = find_away(saved);
  if (found == away_.end()) return;
  runtime_.wait_event(found->returning.event);
  for (std::size_t i = 0; i < found->gone.size(); ++i) {
    for (const Place& place : found->gone[i].places) {
      saved[place.at] = found->returning.here[i].reshaped(place.offset, place.shape, place.dtype);
    }
  }
  away_.erase(found);
}

}  // namespace shardsim
