#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "scenarios/formats/megatron.hpp"
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

// A command line or a shell script, read as far as flags need it: words, quotes, comments,
// continued lines, NAME=value and NAME=( words ), $NAME and ${NAME}. Nothing is run.

struct ShellWord {
  std::string text;
  std::size_t offset = 0;
  bool begins = false;  ///< Begins a command or follows a redirection: no flag's value.
};

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

class ShellWords {
 public:
  explicit ShellWords(const std::string& text) : text_(text) {}

  std::vector<ShellWord> read() {
    while (at_ < text_.size()) step();
    flush();
    return std::move(words_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\\' && quote_ != '\'') {
      escape();
    } else if (quote_ != '\0') {
      if (c == quote_) {
        quote_ = '\0';
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        flush();  // GPT_ARGS="--a 1 --b 2": quoted words are words, too.
      } else {
        put(c);
      }
    } else if (c == '"' || c == '\'') {
      quote_ = c;
    } else if (c == '#' && word_.text.empty()) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    } else if (is_operator(c)) {
      end_command(c);
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      flush();
      begins_ = begins_ || (c == '\n' && depth_ == 0);
    } else {
      put(c);
    }
    ++at_;
  }
  // A backslash at the end of a line continues it; on Windows that end is two characters.
  void escape() {
    if (text_.compare(at_ + 1, 2, "\r\n") == 0) ++at_;
    ++at_;
    if (at_ == text_.size() || std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      flush();
    } else {
      put(text_[at_]);
    }
  }
  static bool is_operator(char c) {
    return std::string_view("();|&<>").find(c) != std::string_view::npos;
  }
  void end_command(char c) {
    // The 2 of 2>&1 is a file.
    const bool redirects = c == '<' || c == '>';
    if (redirects && word_.text.find_first_not_of("0123456789") == std::string::npos) word_ = {};
    flush();
    begins_ = true;
    // In NAME=( words ) lines do not end anything.
    if (c == '(') ++depth_;
    if (c == ')' && depth_ > 0) --depth_;
  }
  void put(char c) {
    if (word_.text.empty()) {
      word_.offset = at_;
      word_.begins = std::exchange(begins_, false);
    }
    word_.text += c;
  }
  void flush() {
    if (!word_.text.empty()) words_.push_back(word_);
    word_ = {};
  }

  const std::string& text_;
  std::size_t at_ = 0;
  char quote_ = '\0';
  int depth_ = 0;
  bool begins_ = false;
  ShellWord word_;
  std::vector<ShellWord> words_;
};

using Variables = std::map<std::string, std::string>;

// "TP=8" and "export TP=8"; 0 if the word is no assignment.
std::size_t assignment_of(const std::string& word) {
  std::size_t at = 0;
  while (at < word.size() && is_name_character(word[at])) ++at;
  return at > 0 && at < word.size() && word[at] == '=' ? at : 0;
}

// Variables that are not set stay as they are.
std::string expanded(const std::string& word, const Variables& variables) {
  std::string text;
  for (std::size_t at = 0; at < word.size(); ++at) {
    if (word[at] != '$') {
      text += word[at];
      continue;
    }
    const bool braces = at + 1 < word.size() && word[at + 1] == '{';
    std::size_t end = at + (braces ? 2 : 1);
    const std::size_t begin = end;
    while (end < word.size() && is_name_character(word[end])) ++end;
    const auto found = variables.find(word.substr(begin, end - begin));
    if (found == variables.end()) {
      text += word[at];
      continue;
    }
    text += found->second;
    at = braces ? std::min(word.find('}', end), word.size() - 1) : end - 1;
  }
  return text;
}

// "--seq-length=2048" and "--seq-length 2048".
struct Flag {
  std::string name;
  std::string value;
};

Flag flag_of(const std::string& word) {
  Flag flag;
  const std::size_t equals = word.find('=');
  flag.name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  if (equals != std::string::npos) flag.value = word.substr(equals + 1);
  std::replace(flag.name.begin(), flag.name.end(), '-', '_');
  return flag;
}

// Reads the flags in a command line or a shell script. Its variables and arrays are expanded, as
// far as they are set to plain words there.
void read_megatron_flags(const SourceText& source, MegatronArguments& arguments) {
  const std::vector<ShellWord> words = ShellWords(source.text).read();
  Variables variables;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i].text;
    if (const std::size_t equals = assignment_of(word); equals > 0) {
      // ARGS="--seq-length 2048": its quotes are gone, and the flag counts at its place.
      const std::string value = word.substr(equals + 1);
      variables[word.substr(0, equals)] = expanded(value, variables);
      word = value;
    }
    if (word.rfind("--", 0) != 0 || word.size() == 2) continue;
    Flag flag = flag_of(word);
    std::size_t length = word.size();
    const auto is_value = [&words](std::size_t at) {
      return at < words.size() && !words[at].begins && words[at].text.rfind("--", 0) != 0 &&
             assignment_of(words[at].text) == 0;
    };
    if (flag.value.empty() && is_value(i + 1)) {
      ++i;
      flag.value = words[i].text;
      length = words[i].text.size();
    }
    MegatronArgument argument{expanded(flag.value, variables), words[i].offset, length};
    argument.words = argument.value;
    for (std::size_t next = i + 1; is_value(next); ++next) {
      argument.words += " " + expanded(words[next].text, variables);
    }
    arguments.add(flag.name, std::move(argument));
  }
}

constexpr std::string_view kRuler = "--- arguments ---";
constexpr std::string_view kEnd = "--- end of arguments ---";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// "0:   hidden_size ..................................... 6144": after any prefix of a launcher,
// the name is the last word before the dots. GPT-NeoX puts dots and "default" after the value, too.
void add_line(const SourceText& source, std::size_t offset, std::size_t length,
              MegatronArguments& arguments) {
  const std::string_view line = std::string_view(source.text).substr(offset, length);
  const std::size_t dots = line.find(" ..");
  if (dots == std::string_view::npos) return;
  const std::string_view before = trimmed(line.substr(0, dots));
  const std::size_t space = before.find_last_of(" \t]");
  const std::string name(space == std::string_view::npos ? before : before.substr(space + 1));
  const std::size_t after = line.find_first_not_of('.', dots + 1);
  std::string_view value = after == std::string_view::npos ? "" : trimmed(line.substr(after));
  const std::size_t tail = value.find("....");
  if (tail != std::string_view::npos) value = value.substr(0, tail);
  if (name.empty()) return;
  const std::size_t at =
      value.empty() ? offset : static_cast<std::size_t>(value.data() - source.text.data());
  arguments.add(name, {std::string(value), at, std::max<std::size_t>(value.size(), 1)});
}

double number_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return -1.0;
  return std::strtod(std::string(line.substr(at + words.size())).c_str(), nullptr);
}

void read_line(std::string_view line, MegatronRun& run) {
  const double step = number_after(line, "elapsed time per iteration (ms):");
  if (step > 0.0) run.step_ms.push_back(step);
  const double tflops = number_after(line, "throughput per GPU (TFLOP/s/GPU):");
  if (tflops > 0.0) run.tflops.push_back(tflops);
  if (line.find("padded vocab (size:") != std::string_view::npos) {
    run.padded_vocab = static_cast<std::int64_t>(number_after(line, "(new size:"));
  }
  const double parameters = number_after(line, "model parallel rank (0, 0):");
  if (parameters > 0.0) run.rank_parameters = static_cast<std::int64_t>(parameters);
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

std::optional<std::string> MegatronArguments::list(const std::string& name) {
  const MegatronArgument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  return argument->words.empty() ? argument->value : argument->words;
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

std::vector<std::string> words_of_list(const std::string& list) {
  std::vector<std::string> words(1);
  for (const char c : list) {
    if (is_name_character(c)) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

MegatronArguments read_megatron_arguments(const SourceText& source) {
  const std::size_t begin = source.text.rfind(kRuler);
  if (begin == std::string::npos) {
    MegatronArguments flags(source, false);
    read_megatron_flags(source, flags);
    if (!flags.empty()) return flags;
    throw_problem(
        "E1360", {&source, 0, 0},
        source.name + " has neither the block \"arguments\" of a Megatron-LM log nor flags",
        "import the log from its first line on, or the script that starts the run");
  }
  MegatronArguments arguments(source, true);
  const std::size_t end = std::min(source.text.find(kEnd, begin), source.text.size());
  for (std::size_t at = source.text.find('\n', begin); at < end;) {
    const std::size_t next = std::min(source.text.find('\n', at + 1), end);
    add_line(source, at + 1, next - std::min(at + 1, next), arguments);
    at = next;
  }
  return arguments;
}

MegatronRun read_megatron_run(const std::string& text) {
  MegatronRun run;
  const std::size_t begin = text.rfind(kRuler);
  if (begin == std::string::npos) return run;
  for (std::size_t at = begin; at < text.size();) {
    const std::size_t next = std::min(text.find('\n', at), text.size());
    read_line(std::string_view(text).substr(at, next - at), run);
    at = next + 1;
  }
  return run;
}

}  // namespace shardsim
