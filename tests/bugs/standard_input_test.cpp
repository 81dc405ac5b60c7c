#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <streambuf>

#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"

// A scenario on standard input was read to its end before any check: an endless pipe took all
// memory. Also, `check` could not read standard input.
namespace shardsim::test {

namespace {

/// Blanks without end, or up to a size; counts the bytes taken.
class Blanks : public std::streambuf {
 public:
  explicit Blanks(std::size_t size) : left_(size) {}
  [[nodiscard]] std::size_t taken() const { return taken_; }

 protected:
  int_type underflow() override {
    if (left_ == 0) return traits_type::eof();
    const std::size_t now = std::min(left_, block_.size());
    left_ -= now;
    taken_ += now;
    setg(block_.data(), block_.data(), block_.data() + now);
    return traits_type::to_int_type(block_.front());
  }

 private:
  std::string block_ = std::string(4096, ' ');
  std::size_t left_;
  std::size_t taken_ = 0;
};

/// Standard input is that buffer while this lives.
class Redirected {
 public:
  explicit Redirected(std::streambuf& buffer) : before_(std::cin.rdbuf(&buffer)) {
    std::cin.clear();
  }
  ~Redirected() {
    std::cin.rdbuf(before_);
    std::cin.clear();
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  std::streambuf* before_;
};

constexpr std::size_t kMostBytes = std::size_t{1} << 20U;

}  // namespace

TEST_CASE("standard input without end is refused at the limit of files") {
  for (const std::string verb : {"run", "check"}) {
    Blanks blanks(std::size_t{1} << 30U);
    const Redirected redirected(blanks);
    const Printed printed = shardsim({verb, "-"});
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, "error[E0003]: standard input has more than 1048576 bytes"));
    CHECK(blanks.taken() <= kMostBytes + (std::size_t{1} << 17U));
  }
}

TEST_CASE("standard input may be as large as a file") {
  std::string text = content_of("scenarios/verify-mlp-ddp.json");
  text.resize(kMostBytes, ' ');
  for (const char* const verb : {"run", "check"}) {
    std::stringbuf whole(text);
    const Redirected redirected(whole);
    CHECK(shardsim({verb, "-"}).exit_code == 0);
  }
  std::stringbuf larger(text + " ");
  const Redirected redirected(larger);
  CHECK(contains(shardsim({"check", "-"}).err, "E0003"));
}

TEST_CASE("check says of standard input what it says of a file") {
  std::stringbuf wrong(R"({"schema_version": 1, "model": {"num_layers": 0}})");
  const Redirected redirected(wrong);
  const Printed printed = shardsim({"check", "-"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "error[E0102]: \"num_layers\" is 0, out of range"));
}

}  // namespace shardsim::test
