#include "sim/console/whole_file.hpp"

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <thread>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/app/file_limit.hpp"

namespace shardsim::test {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) {
  write_whole_file(
      path, [&text](std::ostream& file) { file << text; }, "stop");
}

// The error for a file that cannot be written, with the way out.
std::string refusal(const std::string& path, const std::string& text = "new") {
  try {
    put(path, text);
  } catch (const UsageError& error) {
    CHECK(error.code() == "E0901");
    return std::string(error.what()) + "; " + error.fix();
  }
  return "";
}

unsigned mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

// All names in the folder, including links and pipes.
std::size_t names_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

// While this lives, the process has the rights of nobody instead of those of root, who may do
// everything.
class OrdinaryUser {
 public:
  OrdinaryUser() {
    if (::geteuid() == 0) REQUIRE(::seteuid(65534) == 0);
  }
  ~OrdinaryUser() {
    if (::getuid() == 0) static_cast<void>(::seteuid(0));
  }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;
};

class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

}  // namespace

TEST_CASE("a file is there whole, and has the permissions of its predecessor or the mask") {
  const TemporaryFolder folder;
  const std::string file = folder / "a.json";
  const std::string large(1'000'000, 'x');  // Larger than any buffer.
  {
    const Umask mask(027);
    put(file, large);
  }
  CHECK(content_of(file) == large);
  CHECK(mode_of(file) == 0640);
  fs::permissions(file, fs::perms(0604));
  put(file, "new");
  CHECK(content_of(file) == "new");
  CHECK(mode_of(file) == 0604);
  CHECK(names_in(folder) == 1);
  if (::geteuid() == 0) {
    REQUIRE(::chown(file.c_str(), 65534, 65534) == 0);
    fs::permissions(file, fs::perms(0662));
    put(file, "ours");
    CHECK(mode_of(file) == 0640);
  }
}

TEST_CASE("what goes wrong while a file is written leaves the old one and no rest") {
  const TemporaryFolder folder;
  const std::string file = folder / "a.json";
  write(file, "old");
  const auto stop = [&] {
    write_whole_file(file, [](std::ostream& stream) {
      stream << std::string(1'000'000, 'x');
      throw std::runtime_error("stopped");
    });
  };
  CHECK_THROWS_WITH(stop(), "stopped");
  {
    // Without blocking, the limit's signal would end the process.
    const FileLimit limit(100'000);
    CHECK(refusal(file, std::string(1'000'000, 'x')) ==
          "cannot write \"" + file +
              "\": it would be larger than a file may be; raise the limit (ulimit -f), or stop");
  }
  CHECK(content_of(file) == "old");
  CHECK(names_in(folder) == 1);
}

TEST_CASE("a link is replaced, and what it leads to stays") {
  const TemporaryFolder folder;
  write(folder / "precious", "old");
  for (const char* target : {"precious", "nowhere"}) {
    fs::create_symlink(target, folder / "link");
    put(folder / "link", "new");
    CHECK(fs::is_regular_file(fs::symlink_status(folder / "link")));
    CHECK(content_of(folder / "link") == "new");
    fs::remove(folder / "link");
  }
  fs::create_hard_link(folder / "precious", folder / "twin");
  put(folder / "twin", "new");
  CHECK(content_of(folder / "precious") == "old");
  CHECK(names_in(folder) == 2);
}

TEST_CASE("what is no file is written to directly") {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal(pipe) ==
        "cannot write \"" + pipe + "\": nobody reads it; start its reader first, or stop");
  std::string read;
  std::thread reader([&] { read = content_of(pipe); });
  // Blocks until the reader is there; the writer does not.
  const int waits = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
  put(pipe, std::string(200'000, 'x'));
  ::close(waits);
  reader.join();
  CHECK(read == std::string(200'000, 'x'));

  put("/dev/null", "new");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(refusal("/dev/full") ==
        "cannot write \"/dev/full\": no space is left on the device of \"/dev\"; make room there, "
        "or stop");

  // Appended after earlier output, not in its place.
  const std::string file = folder / "log";
  const int open_file = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::write(open_file, "first ", 6) == 6);
  put("/dev/fd/" + std::to_string(open_file), "second ");
  put("/proc/self/fd/" + std::to_string(open_file), "third");
  ::close(open_file);
  CHECK(content_of(file) == "first second third");
  CHECK(contains(refusal("/dev/fd/" + std::to_string(open_file)), "not open for writing"));
}

TEST_CASE("what cannot be written says why") {
  const TemporaryFolder folder;
  write(folder / "file", "");
  const std::string start = "cannot write \"" + folder.path();
  CHECK(refusal(folder / "none/a") == start + "/none/a\": there is no folder \"" + folder.path() +
                                          "/none\"; make the folder, or stop");
  CHECK(refusal(folder / "file/a") == start + "/file/a\": \"" + folder.path() +
                                          "/file\" is not a folder; move what is in the way, or "
                                          "stop");
  CHECK(refusal(folder.path()) == start + "\": it is a folder; name a file in it, or stop");
  CHECK(contains(refusal(folder / "file/"), "it is a folder"));
  CHECK(contains(refusal(folder / std::string(300, 'x')), "the name is too long; shorten it"));
  CHECK(contains(refusal(std::string("a\0b", 3)), "this cannot be a file's name"));
  fs::create_symlink("circle", folder / "circle");
  put(folder / "circle", "new");  // Replaces the link itself.
  CHECK(contains(refusal(folder / "\033[2Jnone/a"), "\\x1b[2Jnone"));
}

TEST_CASE("a file that is read-only, or in a folder that is, is not written") {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0777));
  fs::create_directory(folder / "closed");
  write(folder / "closed/old", "old");
  write(folder / "kept", "old");
  fs::permissions(folder / "closed", fs::perms(0555));
  fs::permissions(folder / "kept", fs::perms(0444));
  {
    const OrdinaryUser user;
    for (const char* name : {"closed/new", "closed/old", "kept"}) {
      CHECK(contains(refusal(folder / name), "no permission for it, or for the folder"));
      CHECK_THROWS_WITH(require_writable(folder / name, false),
                        Catch::Contains("no permission for it"));
    }
    CHECK_THROWS_WITH(require_writable(folder / "closed/deep/er", true),
                      Catch::Contains("no permission for it"));
    CHECK_THROWS_WITH(require_writable(folder / "none/new", false),
                      Catch::Contains("there is no folder"));
    CHECK_NOTHROW(require_writable(folder / "none/new", true));
  }
  CHECK(content_of(folder / "kept") == "old");
  CHECK(content_of(folder / "closed/old") == "old");
  fs::permissions(folder / "closed", fs::perms(0755));
}

}  // namespace shardsim::test
