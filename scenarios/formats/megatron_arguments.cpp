#include "scenarios/formats/megatron_arguments.hpp"

#include <cstdlib>
#include <utility>

#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

[[noreturn]] void refuse_value(const std::string& name, const std::string& value, const Span& span,
                               const std::string& wanted) {
  const bool variable = value.find('$') != std::string::npos;
  throw_problem("E1361", span, name + " is " + value + ", not " + wanted,
                variable ? "the script does not set it: put the value in, or import the run's log"
                         : "correct it in the file it was imported from");
}

}  // namespace

void MegatronArguments::add(const std::string& name, MegatronArgument argument) {
  arguments_.insert_or_assign(name, std::move(argument));
}

const MegatronArgument* MegatronArguments::find(const std::string& name) {
  asked_.insert(name);
  const auto found = arguments_.find(name);
  if (found == arguments_.end() || found->second.value == "None") return nullptr;
  return &found->second;
}

std::optional<double> MegatronArguments::number(const std::string& name) {
  const MegatronArgument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(argument->value.c_str(), &end);
  if (argument->value.empty() || *end != '\0') {
    refuse_value(name, argument->value, where(name), "a number");
  }
  return value;
}

std::optional<std::int64_t> MegatronArguments::integer(const std::string& name,
                                                       const ForeignRange& range) {
  const MegatronArgument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  char* end = nullptr;
  const long long value = std::strtoll(argument->value.c_str(), &end, 10);
  if (argument->value.empty() || *end != '\0') {
    refuse_value(name, argument->value, where(name), "a whole number");
  }
  if (!range.has(value)) refuse_value(name, argument->value, where(name), range.words());
  return value;
}

bool MegatronArguments::truth(const std::string& name, bool otherwise) {
  const MegatronArgument* argument = find(name);
  if (argument == nullptr) return otherwise;
  // A flag without a word after it.
  if (argument->value.empty() || argument->value == "True") return true;
  if (argument->value == "False") return false;
  // On a command line the next word is not the flag's: --bf16 $EXTRA_ARGS.
  if (!from_log_) return true;
  refuse_value(name, argument->value, where(name), "True or False");
}

std::optional<std::string> MegatronArguments::text(const std::string& name) {
  const MegatronArgument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  return argument->value;
}

std::string MegatronArguments::written(const std::string& name) const {
  const auto found = arguments_.find(name);
  return found == arguments_.end() ? "" : found->second.value;
}

std::vector<std::string> MegatronArguments::rest() const {
  std::vector<std::string> names;
  for (const auto& [name, argument] : arguments_) {
    if (asked_.count(name) == 0) names.push_back(name);
  }
  return names;
}

Span MegatronArguments::where(const std::string& name) const {
  const auto found = arguments_.find(name);
  if (found == arguments_.end()) return {source_, 0, 0};
  return {source_, found->second.offset, found->second.length};
}

}  // namespace shardsim
