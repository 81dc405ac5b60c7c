#include "scenarios/formats/layer_pattern.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace shardsim {

namespace {

// All of them, unless the pattern comes again at least once.
std::size_t period_of(const std::vector<ImportItem>& layers) {
  std::size_t period = 1;
  const auto repeats = [&] {
    for (std::size_t i = period; i < layers.size(); ++i) {
      if (layers[i] != layers[i - period]) return false;
    }
    return true;
  };
  while (!repeats()) ++period;
  return 2 * period <= layers.size() ? period : std::max<std::size_t>(layers.size(), 1);
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

// "[0,1]*3", at most `limit` entries.
bool append_term(const std::string& term, std::size_t limit, std::vector<bool>& layers) {
  const std::size_t close = term.find(']');
  if (term.empty() || term.front() != '[' || close == std::string::npos) return false;
  std::int64_t times = 1;
  if (close + 1 < term.size()) {
    const auto number =
        term[close + 1] == '*' ? whole_number(term.substr(close + 2)) : std::nullopt;
    if (!number || *number < 0 || *number > static_cast<std::int64_t>(limit)) return false;
    times = *number;
  }
  std::vector<bool> entries;
  for (std::size_t at = 1; at < close; at += 2) {
    const bool ends = term[at + 1] == ',' || at + 1 == close;
    if ((term[at] != '0' && term[at] != '1') || !ends) return false;
    entries.push_back(term[at] == '1');
  }
  for (std::int64_t i = 0; i < times; ++i) {
    if (layers.size() + entries.size() > limit) return false;
    layers.insert(layers.end(), entries.begin(), entries.end());
  }
  return true;
}

}  // namespace

void write_layers(const ForeignValue& theirs, const std::vector<ImportItem>& layers,
                  Import& import) {
  const std::size_t period = period_of(layers);
  if (period == 1 && layers.front().empty()) return;
  std::vector<ImportItem> items;
  for (std::size_t i = 0; i < period;) {
    std::size_t end = i + 1;
    while (end < period && layers[end] == layers[i]) ++end;
    const std::size_t repeats = period == 1 ? layers.size() : end - i;
    items.push_back(layers[i]);
    if (repeats > 1) items.back().emplace_back("repeats", static_cast<std::int64_t>(repeats));
    i = end;
  }
  import.derive_list(theirs, "model.layers", items);
  if (period > 1 && period < layers.size()) {
    import.derive({theirs.name, fmt::format("every {} layers", period)}, "model.layers_cycle",
                  true);
  }
}

std::optional<std::vector<bool>> read_frequency(const std::string& text, std::int64_t num_layers) {
  const auto limit = static_cast<std::size_t>(num_layers);
  std::vector<bool> layers;
  if (const auto every = whole_number(text)) {
    if (*every < 1) return std::nullopt;
    for (std::int64_t i = 0; i < num_layers; ++i) layers.push_back(i % *every == 0);
    return layers;
  }
  std::string terms;
  for (const char c : text) {
    if (std::string(" ()'\"").find(c) == std::string::npos) terms.push_back(c);
  }
  for (std::size_t from = 0; from <= terms.size();) {
    const std::size_t end = std::min(terms.find('+', from), terms.size());
    if (!append_term(terms.substr(from, end - from), limit, layers)) return std::nullopt;
    from = end + 1;
  }
  if (layers.size() != limit) return std::nullopt;
  return layers;
}

std::string frequency_of(const std::vector<bool>& layers) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    runs.push_back(fmt::format("[{}]*{}", layers[i] ? 1 : 0, end - i));
    i = end;
  }
  return fmt::format("({})", fmt::join(runs, "+"));
}

}  // namespace shardsim
