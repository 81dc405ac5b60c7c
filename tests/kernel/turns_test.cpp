#include "sim/kernel/turns.hpp"

#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

namespace shardsim::test {
namespace {

// Writes when it goes out of scope.
struct Note {
  std::string& text;
  const char* what;
  ~Note() { text += what; }
};

}  // namespace

TEST_CASE("two works take turns where they pass them") {
  Turns turns;
  std::string text;
  for (int time = 0; time < 3; ++time) {
    turns.run(
        [&] {
          for (const char* step : {"a", "b", "c"}) {
            text += step;
            turns.pass();
          }
        },
        [&] {
          for (const char* step : {"1", "2", "3", "4", "5"}) {
            text += step;
            turns.pass();
          }
        });
    CHECK(text == "a1b2c345");
    text.clear();
  }
  turns.run(
      [&] {
        for (const char* step : {"a", "b", "c"}) {
          text += step;
          turns.pass();
        }
      },
      [&] { text += "1"; });
  CHECK(text == "a1bc");
}

TEST_CASE("whoever takes the turn is told of") {
  Turns turns;
  std::string text;
  turns.run(
      [&] {
        turns.pass();
        text += "a";
        turns.pass();
        text += "b";
      },
      [&] {
        text += "1";
        turns.pass();
        text += "2";
        turns.pass();
        text += "3";
      },
      [&](bool is_second) { text += is_second ? '>' : '<'; });
  CHECK(text == ">1<a>2<b>3");
}

TEST_CASE("the second fills what it waits for, whether or not the first has ended") {
  Turns turns;
  std::string text;
  const auto first = [&] {
    text += "a";
    turns.pass();
    text += "b";
    turns.pass();
    text += "c";
  };
  const auto second = [&] {
    for (const char* step : {"1", "2", "3", "4"}) {
      text += step;
      turns.pass();
    }
  };
  turns.run(first, second, {}, [&] { text += "."; });
  CHECK(text == "a1b.2c.3.4.");
  // The next run has its own.
  text.clear();
  turns.run(first, second);
  CHECK(text == "a1b2c34");
}

TEST_CASE("an exception where the second fills ends both") {
  Turns turns;
  std::string text;
  const auto run = [&] {
    turns.run(
        [&] {
          const Note note{text, "a"};
          turns.pass();
          turns.pass();
        },
        [&] {
          const Note note{text, "1"};
          turns.pass();
          text += "not here";
        },
        {}, [] { throw std::runtime_error("full"); });
  };
  CHECK_THROWS_WITH(run(), "full");
  CHECK(text == "1a");
}

TEST_CASE("a turn that nobody else can take is kept") {
  Turns turns;
  turns.pass();
  std::string text;
  turns.run([&] { text += "a"; }, [&] { text += "1"; });
  turns.pass();
  CHECK(text == "a1");
}

TEST_CASE("an exception of the first work unwinds the second, and leaves") {
  Turns turns;
  std::string text;
  const auto run = [&] {
    turns.run(
        [&] {
          const Note note{text, "a"};
          turns.pass();
          throw std::runtime_error("first");
        },
        [&] {
          const Note note{text, "1"};
          turns.pass();
          text += "never";
        });
  };
  CHECK_THROWS_WITH(run(), "first");
  CHECK(text == "a1");
  text.clear();
  turns.run([&] { text += "b"; }, [&] { text += "2"; });  // It can be used again.
  CHECK(text == "b2");
}

TEST_CASE("an exception of the second work leaves through the first") {
  Turns turns;
  std::string text;
  const auto run = [&](bool at_once) {
    turns.run(
        [&] {
          const Note note{text, "a"};
          turns.pass();
          turns.pass();
          if (at_once) text += "never";
        },
        [&] {
          const Note note{text, "1"};
          if (at_once) throw std::runtime_error("second");
          turns.pass();
          turns.pass();
          throw std::runtime_error("at the end");
        });
  };
  CHECK_THROWS_WITH(run(true), "second");
  CHECK(text == "1a");
  text.clear();
  CHECK_THROWS_WITH(run(false), "at the end");
  CHECK(text == "a1");  // The first had ended.
}

TEST_CASE("exceptions that one work handles are none of the other's") {
  Turns turns;
  std::string text;
  const auto works = [&](const char* what) {
    return [&text, &turns, what] {
      for (int time = 0; time < 3; ++time) {
        try {
          turns.pass();
          throw std::runtime_error(what);
        } catch (const std::runtime_error& error) {
          text += error.what();
        }
      }
    };
  };
  turns.run(works("a"), works("1"));
  CHECK(text == "a1a1a1");
}

}  // namespace shardsim::test
