#include "scenarios/formats/layer_pattern.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

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

bool has_phase(std::int64_t layer, std::int64_t every, LayerPhase phase) {
  const bool is_last = (layer + 1) % every == 0;
  if (phase == LayerPhase::first_of_each) return layer % every == 0;
  return phase == LayerPhase::last_of_each ? is_last : !is_last;
}

// Lists of 0 and 1 that are added, multiplied and put into parentheses, without blanks. At most
// `limit` entries and so many parentheses within each other.
class ListExpression {
 public:
  ListExpression(std::string_view text, std::size_t limit) : text_(text), limit_(limit) {}

  std::optional<std::vector<bool>> read() {
    std::optional<std::vector<bool>> all = sum(0);
    return at_ == text_.size() ? all : std::nullopt;
  }

 private:
  static constexpr int kDepth = 16;
  using List = std::optional<std::vector<bool>>;

  List sum(int depth) {
    List all = product(depth);
    while (all && takes('+')) {
      const List more = product(depth);
      if (!more || all->size() + more->size() > limit_) return std::nullopt;
      all->insert(all->end(), more->begin(), more->end());
    }
    return all;
  }
  List product(int depth) {
    List one = takes('(') ? within(depth + 1) : list();
    while (one && takes('*')) {
      const std::size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
      const auto times = whole_number(std::string(text_.substr(at_, end - at_)));
      const auto most = static_cast<std::int64_t>(limit_);
      if (!times || *times > most || one->size() * static_cast<std::size_t>(*times) > limit_) {
        return std::nullopt;
      }
      at_ = end;
      std::vector<bool> all;
      for (std::int64_t i = 0; i < *times; ++i) all.insert(all.end(), one->begin(), one->end());
      one = all;
    }
    return one;
  }
  List within(int depth) {
    if (depth > kDepth) return std::nullopt;
    List all = sum(depth);
    return takes(')') ? all : std::nullopt;
  }
  List list() {
    if (!takes('[')) return std::nullopt;
    std::vector<bool> entries;
    while (!takes(']')) {
      const bool is_one = takes('1');
      if ((!is_one && !takes('0')) || entries.size() >= limit_) return std::nullopt;
      entries.push_back(is_one);
      if (!takes(',') && !is_at(']')) return std::nullopt;
    }
    return entries;
  }
  [[nodiscard]] bool is_at(char letter) const { return at_ < text_.size() && text_[at_] == letter; }
  bool takes(char letter) {
    if (!is_at(letter)) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  std::size_t limit_;
  std::size_t at_ = 0;
};

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

std::optional<std::vector<bool>> read_frequency(const std::string& text, std::int64_t num_layers,
                                                LayerPhase phase) {
  if (const auto every = whole_number(text)) {
    if (*every < 1) return std::nullopt;
    std::vector<bool> layers;
    for (std::int64_t i = 0; i < num_layers; ++i) layers.push_back(has_phase(i, *every, phase));
    return layers;
  }
  std::string plain;
  for (const char letter : text) {
    if (std::string_view(" '\"").find(letter) == std::string_view::npos) plain += letter;
  }
  const auto limit = static_cast<std::size_t>(num_layers);
  auto layers = ListExpression(plain, limit).read();
  if (!layers || layers->size() != limit) return std::nullopt;
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
