#include <fstream>

#include <catch2/catch.hpp>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/kernel/hash.hpp"

#include "tests/rendezvous/rendezvous_fixture.hpp"
#include "tests/rendezvous/sample_messages.hpp"

// Random and damaged bytes, the same in every run, at the decoder and at a server.
namespace shardsim {
namespace {

#ifdef SHARDSIM_SANITIZED
constexpr int kNumFrames = 100'000;
#else
constexpr int kNumFrames = 1'000'000;
#endif

class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t limit) {
    RollingHash hash;
    hash.add(seed_);
    hash.add(count_++);
    return (hash.value() >> 11U) % limit;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

// A valid frame with some damage, or bytes that never were one.
std::string bad_frame(Numbers& numbers, const std::vector<std::string>& valid) {
  if (numbers.below(32) == 0) {
    std::string bytes(numbers.below(64), '\0');
    for (char& byte : bytes) byte = static_cast<char>(numbers.below(256));
    return numbers.below(2) == 0
               ? bytes
               : encode_frame(static_cast<std::uint8_t>(numbers.below(14)), bytes);
  }
  std::string bytes = valid[numbers.below(valid.size())];
  // Damage behind the length reaches the payload; before it, the stream.
  const std::size_t from = numbers.below(256) == 0 ? 0 : 4;
  const std::uint64_t num_changes = 1 + numbers.below(3);
  constexpr std::string_view kTelling = "\"{}[],:0123456789-.eE\\unltrfas\xff\x00";
  for (std::uint64_t i = 0; i < num_changes && bytes.size() > from; ++i) {
    const std::size_t at = from + numbers.below(bytes.size() - from);
    switch (numbers.below(4)) {
      case 0:
        bytes[at] = static_cast<char>(numbers.below(256));
        break;
      case 1:
        bytes[at] = kTelling[numbers.below(kTelling.size())];
        break;
      case 2:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << numbers.below(8));
        break;
      default:  // Something is missing, under a length that is right again.
        if (from == 4 && at > 4) {
          const std::uint8_t type = static_cast<std::uint8_t>(bytes[4]);
          std::string payload = bytes.substr(5);
          payload.erase(at - 5, 1 + numbers.below(8));
          bytes = encode_frame(type, payload);
        } else {
          bytes.resize(at);
        }
    }
  }
  return bytes;
}

std::vector<std::string> valid_frames() {
  std::vector<std::string> frames;
  for (const RendezvousMessage& message : test::sample_messages()) {
    frames.push_back(encode_message(message));
  }
  return frames;
}

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Sends `bytes` over a connection of its own, and reads until the server ends it or has no answer.
void throw_at(int port, const std::string& bytes) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(socket >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  static_cast<void>(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  shutdown(socket, SHUT_WR);
  char answer[4096];
  while (recv(socket, answer, sizeof answer, 0) > 0) {
  }
  close(socket);
}

}  // namespace

TEST_CASE("a million damaged frames are told from messages without a crash, in bounded memory") {
  const std::vector<std::string> valid = valid_frames();
  Numbers numbers(1);
  FrameDecoder decoder;
  int num_messages = 0;
  int num_refused = 0;
  int num_broken = 0;
  const long before = peak_kilobytes();
  for (int i = 0; i < kNumFrames; ++i) {
    decoder.feed(bad_frame(numbers, valid));
    while (const std::optional<Frame> frame = decoder.next()) {
      const std::optional<RendezvousMessage> message = decode_message(*frame);
      (message ? num_messages : num_refused) += 1;
      // An accepted message can be said again.
      if (message && i % 16 == 0) CHECK(encode_message(*message).size() <= 4 + kMaxFrameBytes);
    }
    if (decoder.broken() || numbers.below(64) == 0) {
      num_broken += decoder.broken() ? 1 : 0;
      decoder = FrameDecoder();
    }
  }
  // All three kinds were met, so the damage is neither too little nor too much.
  CHECK(num_messages > kNumFrames / 25);
  CHECK(num_refused > kNumFrames / 10);
  CHECK(num_broken > kNumFrames / 1000);
  CHECK(num_messages + num_refused > kNumFrames / 2);
#ifndef SHARDSIM_SANITIZED  // Which keeps freed memory for a while.
  CHECK(peak_kilobytes() - before < 64 * 1024);
#else
  static_cast<void>(before);
#endif
}

TEST_CASE("thousands of damaged conversations leave a server and its ranks undisturbed") {
  const RendezvousServer server({.world_size = 2, .times = test::patient_times()});
  RendezvousClient first(test::client_of(server, 0, 2));
  std::vector<std::string> valid = valid_frames();
  // Some get as far as the token, and are refused for their rank.
  valid.push_back(encode_message(
      Hello{.token = server.token(), .rank = 9, .world_size = 2, .pid = 1, .host = "elsewhere"}));
  Numbers numbers(2);
  constexpr int kNumConversations = 3000;
  for (int i = 0; i < kNumConversations; ++i) {
    std::string bytes;
    for (std::uint64_t part = 0; part <= numbers.below(3); ++part) {
      bytes +=
          numbers.below(4) == 0 ? valid[numbers.below(valid.size())] : bad_frame(numbers, valid);
    }
    throw_at(server.port(), bytes);
  }
  RendezvousClient second(test::client_of(server, 1, 2));
  first.set("key", "value");
  CHECK(second.get("key", 60.0) == "value");
  second.end();
  first.end();
  CHECK(!server.wait().failure);
}

TEST_CASE("a rank that talks nonsense after the token is the one that is named") {
  const RendezvousServer server({.world_size = 2, .times = test::patient_times()});
  RendezvousClient first(test::client_of(server, 0, 2));
  const std::string hello = encode_message(
      Hello{.token = server.token(), .rank = 1, .world_size = 2, .pid = 1, .host = "elsewhere"});
  throw_at(server.port(), hello + encode_frame(3, "{}"));
  const Verdict verdict = server.wait();
  REQUIRE(verdict.failure);
  CHECK_THAT(verdict.failure->diagnosis->summary,
             Catch::StartsWith("rank 1 (process 1 on elsewhere) has died"));
}

TEST_CASE("connections without a token are bounded, and ranks get through once they are gone") {
  const RendezvousServer server({.world_size = 1, .times = test::patient_times()});
  std::vector<int> strangers;
  for (int i = 0; i < 200; ++i) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    strangers.push_back(socket);
  }
  // The server itself lets go of those it keeps after some seconds; the rank tries again until
  // then.
  RendezvousClient client(test::client_of(server, 0, 1));
  client.end();
  int num_closed = 0;
  for (const int socket : strangers) {
    char byte = 0;
    num_closed += recv(socket, &byte, 1, MSG_DONTWAIT) == 0 ? 1 : 0;
    close(socket);
  }
  CHECK(num_closed >= 200 - 64);
}

}  // namespace shardsim
