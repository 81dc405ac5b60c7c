#include "sim/serve/gate.hpp"

#include <string>

#include <catch2/catch.hpp>

namespace shardsim {
namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";
constexpr int kPort = 8642;

Gate loopback_gate() { return {"127.0.0.1", true, kPort, kToken}; }

// A request that is admitted; each test spoils one thing.
struct Asked {
  std::string target = "/" + kToken + "/run";
  RequestHead head{.method = "POST",
                   .target = target,
                   .hosts = {"127.0.0.1:8642"},
                   .origins = {"http://127.0.0.1:8642"},
                   .content_types = {"application/json"}};

  Asked() = default;
  explicit Asked(std::string path) : target(std::move(path)) { head.target = target; }
};

int refusal_of(const RequestHead& head) { return loopback_gate().admit(head).refusal; }

}  // namespace

TEST_CASE("A page with the token is admitted, by number and by name", "[serve]") {
  Asked asked;
  const Admission admission = loopback_gate().admit(asked.head);
  REQUIRE(admission.route != nullptr);
  CHECK(admission.refusal == 0);
  CHECK(admission.route->name == "run");
  CHECK(admission.route->door == Door::work);
  asked.head.hosts = {"localhost:8642"};
  asked.head.origins = {"http://localhost:8642"};
  CHECK(refusal_of(asked.head) == 0);
  asked.head.origins = {};  // Programs send none.
  CHECK(refusal_of(asked.head) == 0);
}

TEST_CASE("Another Host is refused: its name was rebound to this machine", "[serve]") {
  for (const char* host : {"evil.example:8642", "127.0.0.1", "127.0.0.1:80", "localhost", "",
                           "127.0.0.1:8642.", "127.0.0.1:8642@evil.example", "0.0.0.0:8642"}) {
    Asked asked;
    asked.head.origins = {};
    asked.head.hosts = {host};
    CAPTURE(host);
    CHECK(refusal_of(asked.head) == 403);
  }
  Asked none;
  none.head.hosts = {};
  CHECK(refusal_of(none.head) == 403);
  Asked two;
  two.head.hosts = {"127.0.0.1:8642", "127.0.0.1:8642"};
  CHECK(refusal_of(two.head) == 403);
}

TEST_CASE("A foreign Origin is refused", "[serve]") {
  for (const char* origin :
       {"null", "http://evil.example", "https://127.0.0.1:8642", "http://127.0.0.1:8643",
        "http://localhost:8642", "http://127.0.0.1:8642.evil.example", ""}) {
    Asked asked;
    asked.head.origins = {origin};
    CAPTURE(origin);
    CHECK(refusal_of(asked.head) == 403);
  }
  Asked two;
  two.head.origins = {"http://127.0.0.1:8642", "http://evil.example"};
  CHECK(refusal_of(two.head) == 403);
}

TEST_CASE("Only the token opens a path, and paths are compared whole", "[serve]") {
  for (const std::string& path :
       {std::string("/run"), std::string("/"), std::string("//run"),
        "/" + kToken.substr(1) + "/run", "/" + kToken + "0/run", "/" + kToken, std::string(),
        "http://127.0.0.1:8642/" + kToken + "/run", "/x/../" + kToken + "/run"}) {
    CAPTURE(path);
    CHECK(refusal_of(Asked(path).head) == 403);
  }
  for (const char* name :
       {"nothing", "run/", "RUN", "../run", "./run", "run?x", "%72un", "run\\"}) {
    CAPTURE(name);
    CHECK(refusal_of(Asked("/" + kToken + "/" + name).head) == 404);
  }
}

TEST_CASE("Methods, chunked bodies and other types of bodies are refused", "[serve]") {
  for (const char* method : {"GET", "PUT", "OPTIONS", "post", ""}) {
    Asked asked;
    asked.head.method = method;
    CHECK(refusal_of(asked.head) == 405);
  }
  Asked chunked;
  chunked.head.is_chunked = true;
  CHECK(refusal_of(chunked.head) == 411);
  // A form of another page can send these without asking first.
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "application/jsonx"}) {
    Asked asked;
    asked.head.content_types = {type};
    CHECK(refusal_of(asked.head) == 415);
  }
  Asked typed;
  typed.head.content_types = {"application/json; charset=utf-8"};
  CHECK(refusal_of(typed.head) == 0);
}

TEST_CASE("The URL has the token, and beyond loopback there is one name", "[serve]") {
  CHECK(loopback_gate().url() == "http://127.0.0.1:8642/" + kToken + "/");
  CHECK(Gate("127.0.0.1", true, 1, "").url() == "http://127.0.0.1:1/");
  const Gate outside("192.168.1.5", false, kPort, kToken);
  Asked asked;
  asked.head.hosts = {"localhost:8642"};
  asked.head.origins = {};
  CHECK(outside.admit(asked.head).refusal == 403);
  asked.head.hosts = {"192.168.1.5:8642"};
  CHECK(outside.admit(asked.head).refusal == 0);
}

TEST_CASE("Without a token the paths begin at the root", "[serve]") {
  const Gate gate("127.0.0.1", true, kPort, "");
  CHECK(gate.admit(Asked("/run").head).refusal == 0);
  CHECK(gate.admit(Asked("run").head).refusal == 403);
}

}  // namespace shardsim
