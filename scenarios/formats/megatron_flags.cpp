#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "scenarios/formats/megatron_arguments.hpp"

// A command line or a shell script, read as far as flags need it: words, quotes, comments,
// continued lines, NAME=value and NAME=( words ), $NAME and ${NAME}. Nothing is run.
namespace shardsim {

namespace {

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
  for (char& c : flag.name) {
    if (c == '-') c = '_';
  }
  return flag;
}

}  // namespace

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
    while (i + 1 < words.size() && !words[i + 1].begins && words[i + 1].text.rfind("--", 0) != 0 &&
           assignment_of(words[i + 1].text) == 0 && flag.value.empty()) {
      ++i;
      flag.value = words[i].text;
      length = words[i].offset + words[i].text.size() - words[i].offset;
    }
    arguments.add(flag.name, {expanded(flag.value, variables), words[i].offset, length});
  }
}

}  // namespace shardsim
