#include "sim/question/question.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "reports/terminal_text.hpp"

#include "sim/question/amounts.hpp"

namespace shardsim {

namespace {

constexpr std::string_view kPriceOption = "--usd-per-gpu-hour";
// The range of cost.usd_per_gpu_hour.
constexpr double kHighestPrice = 1e6;

std::string_view trimmed_part(std::string_view part) {
  while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
  while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
  return part;
}

[[noreturn]] void refuse_gpus(const std::string& words, const std::string& why) {
  throw UsageError(
      "E1323", fmt::format("--gpus {} {}", escape_untrusted(words), why),
      "give their number, a list or a range: --gpus 128, --gpus 256,512, --gpus 256..2048");
}

std::int64_t read_gpu_count(std::string_view part, const std::string& words) {
  const std::optional<std::int64_t> count = parse_number<std::int64_t>(trimmed_part(part));
  if (!count) refuse_gpus(words, "is no number of GPUs");
  if (*count < 1) refuse_gpus(words, fmt::format("has {} GPUs, which train nothing", *count));
  return *count;
}

// "256..2048": 256, 512, 1024, 2048.
std::vector<std::int64_t> doubled(std::string_view part, std::size_t dots,
                                  const std::string& words) {
  const std::int64_t first = read_gpu_count(part.substr(0, dots), words);
  const std::int64_t last = read_gpu_count(part.substr(dots + 2), words);
  std::vector<std::int64_t> counts;
  for (std::int64_t count = first; count <= last; count *= 2) {
    counts.push_back(count);
    if (count > last / 2) break;
  }
  if (counts.empty()) refuse_gpus(words, "begins above its end");
  if (counts.back() == last) return counts;
  refuse_gpus(words,
              fmt::format("doubles from {} to {}, which is not {}", first, counts.back(), last));
}

double read_price(std::string_view text, const std::string& words) {
  const std::optional<double> price = parse_number<double>(trimmed_part(text));
  if (price && *price >= 0.0 && *price <= kHighestPrice) return *price;
  throw UsageError(
      "E1330",
      fmt::format("{} {} has no price from 0 to {}", kPriceOption, escape_untrusted(words),
                  kHighestPrice),
      fmt::format("write {} 2.5 or {} h100=2.5,b200=5; 0: not known", kPriceOption, kPriceOption));
}

void require_prices_for(const std::map<std::string, double>& prices,
                        const std::vector<std::string>& gpus, const std::string& words) {
  for (const auto& [gpu, price] : prices) {
    if (std::ranges::find(gpus, gpu) != gpus.end()) continue;
    throw UsageError("E1337",
                     fmt::format("{} {} prices \"{}\", which --gpu does not name", kPriceOption,
                                 escape_untrusted(words), escape_untrusted(gpu)),
                     fmt::format("write the names as --gpu does: {}", fmt::join(gpus, ", ")));
  }
}

}  // namespace

std::vector<std::int64_t> read_gpu_counts(const std::string& words) {
  std::vector<std::int64_t> counts;
  for (const std::string_view part : split_at(words, ',')) {
    const std::size_t dots = part.find("..");
    std::vector<std::int64_t> more;
    if (dots == std::string_view::npos) {
      more.push_back(read_gpu_count(part, words));
    } else {
      more = doubled(part, dots, words);
    }
    for (const std::int64_t count : more) {
      if (std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
    }
  }
  return counts;
}

std::vector<std::string> read_list(const std::string& words, const std::string& option) {
  std::vector<std::string> parts;
  for (const std::string_view part : split_at(words, ',')) {
    const std::string name(trimmed_part(part));
    const bool is_there = std::ranges::find(parts, name) != parts.end();
    if (name.empty() || is_there) {
      throw UsageError("E1336",
                       fmt::format("{} {} {}", option, escape_untrusted(words),
                                   is_there ? "has a name twice" : "has an empty name"),
                       fmt::format("name each once: {} h100,b200", option));
    }
    parts.push_back(name);
  }
  return parts;
}

std::map<std::string, double> read_prices(const std::string& words,
                                          const std::vector<std::string>& gpus) {
  std::map<std::string, double> prices;
  if (words.empty()) return prices;
  if (words.find('=') == std::string::npos) {
    const double price = read_price(words, words);
    for (const std::string& gpu : gpus) prices[gpu] = price;
    return prices;
  }
  for (const std::string& part : read_list(words, std::string(kPriceOption))) {
    const std::size_t equals = part.find('=');
    const std::string gpu(trimmed_part(std::string_view(part).substr(0, equals)));
    const double price =
        read_price(equals == std::string::npos ? "" : part.substr(equals + 1), words);
    if (!prices.emplace(gpu, price).second) {
      throw UsageError("E1337",
                       fmt::format("{} prices \"{}\" twice", kPriceOption, escape_untrusted(gpu)),
                       "give one price for each kind of GPU");
    }
  }
  require_prices_for(prices, gpus, words);
  return prices;
}

Question read_question(const QuestionWords& words, const SearchRequest& shared) {
  Question question;
  question.shared = shared;
  const std::vector<std::int64_t> counts = read_gpu_counts(words.gpus);
  const std::vector<std::string> gpus = read_list(words.gpu, "--gpu");
  const std::map<std::string, double> prices = read_prices(words.usd_per_gpu_hour, gpus);
  for (const std::string& gpu : gpus) {
    for (const std::int64_t count : counts) {
      MachineChoice machine{.gpu = gpu, .num_gpus = count, .usd_per_gpu_hour = {}};
      if (const auto price = prices.find(gpu); price != prices.end() && price->second > 0) {
        machine.usd_per_gpu_hour = price->second;
      }
      question.machines.push_back(std::move(machine));
    }
  }
  if (!words.tokens.empty()) question.tokens = read_amount(words.tokens, "--tokens");
  if (!words.deadline.empty()) question.deadline_days = read_days(words.deadline, "--deadline");
  if (!words.budget.empty()) question.budget_usd = read_amount(words.budget, "--budget");
  question.shared.batch_for = counts;
  return question;
}

bool asks_for_machines(const Question& question) {
  return question.machines.size() > 1 || question.deadline_days || question.budget_usd;
}

SearchRequest request_of(const Question& question, const MachineChoice& machine) {
  SearchRequest request = question.shared;
  request.gpu = machine.gpu;
  request.num_gpus = machine.num_gpus;
  request.usd_per_gpu_hour = machine.usd_per_gpu_hour.value_or(0.0);
  request.tokens = question.tokens;
  return request;
}

}  // namespace shardsim
