#include "tests/mutants/message_faults.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "strategies/named_groups.hpp"

#include "tests/mutants/copies.hpp"

namespace shardsim::test {

namespace {

/// One rank's end of an edge.
using End = std::pair<int, std::string>;  // World rank, group.

/// A message that is about to be sent or received.
struct Passing {
  const Caller& caller;
  const Tensor& buffer;
  int peer;
  const CallOptions& options;
  CallSite site;
  int number;  ///< On this edge, from 0.

  [[nodiscard]] End end() const { return {caller.world_rank, caller.to.name()}; }
  [[nodiscard]] Work send(const Tensor& other) const {
    return caller.to.send(other, peer, options, site);
  }
};

using MessageFault = decltype(Faults::send);
using MessageChange = std::function<Work(const Passing&)>;

/// Calls with this label become `change`; `pass` is what they are without.
MessageFault changed(const std::string& label, const MessageChange& change,
                     const MessageChange& pass) {
  const auto passed = std::make_shared<std::map<End, int>>();
  return [=](const Caller& caller, const Tensor& buffer, int peer, const CallOptions& options,
             CallSite site) {
    Passing message{caller, buffer, peer, options, site, 0};
    if (options.label != label) return pass(message);
    message.number = (*passed)[message.end()]++;
    return change(message);
  };
}

Work as_sent(const Passing& message) { return message.send(message.buffer); }
Work as_received(const Passing& message) {
  return message.caller.to.recv(message.buffer, message.peer, message.options, message.site);
}

Faults sending(const std::string& label, const MessageChange& change) {
  Faults faults;
  faults.send = changed(label, change, as_sent);
  return faults;
}
Faults receiving(const std::string& label, const MessageChange& change) {
  Faults faults;
  faults.recv = changed(label, change, as_received);
  return faults;
}

/// The second message becomes `change`, all others pass.
MessageChange second(const MessageChange& change, const MessageChange& pass) {
  return
      [=](const Passing& message) { return message.number == 1 ? change(message) : pass(message); };
}

Work nothing(const Passing&) { return {}; }

}  // namespace

Faults dropped_send(const std::string& label) { return sending(label, second(nothing, as_sent)); }

Faults dropped_receive(const std::string& label) {
  return receiving(label, second(nothing, as_received));
}

Faults forgotten_message(const std::string& label) {
  Faults faults = dropped_send(label);
  faults.recv = dropped_receive(label).recv;
  return faults;
}

Faults swapped_messages(const std::string& label) {
  const auto first = std::make_shared<std::map<End, Tensor>>();
  return sending(label, [=](const Passing& message) -> Work {
    if (message.number == 0) {
      (*first)[message.end()] = message.buffer;
      return {};
    }
    if (message.number > 1) return as_sent(message);
    const std::vector<P2pOp> both = {
        {P2pOp::Kind::send, message.buffer, message.peer},
        {P2pOp::Kind::send, std::exchange((*first)[message.end()], Tensor()), message.peer}};
    return message.caller.to.batch(both, message.options, message.site);
  });
}

Faults stale_messages(const std::string& label) {
  struct Versions {
    Tensor now;
    Tensor before;
  };
  const auto versions = std::make_shared<std::map<End, Versions>>();
  return sending(label, [=](const Passing& message) {
    Versions& of = (*versions)[message.end()];
    of = {flat_copy_of(message.buffer),
          message.number == 0 ? flat_copy_of(message.buffer) : of.now};
    return message.send(of.before);
  });
}

Faults corrupted_element(const std::string& label) {
  const auto corrupt = [](const Passing& message) {
    const Tensor& buffer = message.buffer;
    if (buffer.has_data()) buffer.set(buffer.numel() / 2, buffer.get(buffer.numel() / 2) + 0.01);
    return as_sent(message);
  };
  return sending(label, second(corrupt, as_sent));
}

Faults sent_twice(const std::string& label) {
  const auto twice = [](const Passing& message) {
    const P2pOp once{P2pOp::Kind::send, message.buffer, message.peer};
    const std::vector<P2pOp> both = {once, once};
    return message.caller.to.batch(both, message.options, message.site);
  };
  return sending(label, second(twice, as_sent));
}

Faults sent_to_sender(const std::string& label) {
  return sending(label, [](const Passing& message) {
    return message.caller.to.send(message.buffer, message.caller.to.rank(), message.options,
                                  message.site);
  });
}

Faults received_from_receiver(const std::string& label) {
  return receiving(label, [](const Passing& message) {
    return message.caller.to.recv(message.buffer, message.caller.to.rank(), message.options,
                                  message.site);
  });
}

Faults half_sent(const std::string& label) {
  const auto half = [](const Passing& message) {
    return message.send(message.buffer.view(0, {message.buffer.numel() / 2}));
  };
  return sending(label, second(half, as_sent));
}

Faults mislabelled(const std::string& label) {
  const auto as_another = [](const Passing& message) {
    return message.caller.to.send(message.buffer, message.peer, {.label = "something else"},
                                  message.site);
  };
  return sending(label, second(as_another, as_sent));
}

Faults crossed_edges() {
  Faults faults;
  faults.split = [](const Caller& caller, int color, int key, const std::string& name,
                    CallSite site) {
    // See Mesh::make_edge: a color is the sender, receivers have key 1. Across boundaries 0 and 2
    // ranks 0 and 2 send forward, 1 and 3 backward.
    const int first = name == named_group::kPpForward.name ? 0 : 1;
    const bool bent = name.starts_with("pp_") && key == 1 && color % 2 == first;
    return caller.to.split(bent ? 2 + 2 * first - color : color, key, name, site);
  };
  return faults;
}

std::vector<Mutant> message_mutants() {
  struct Fault {
    const char* bug;
    Faults (*make)(const std::string& label);
    Detector found_by;
  };
  const Fault faults[] = {
      {"forgets a message at both ends", forgotten_message, Detector::oracle},
      {"drops a send", dropped_send, Detector::deadlock},
      {"drops a receive", dropped_receive, Detector::deadlock},
      {"swaps two messages", swapped_messages, Detector::oracle},
      {"sends what is stale", stale_messages, Detector::oracle},
      {"corrupts an element", corrupted_element, Detector::oracle},
      {"sends twice", sent_twice, Detector::deadlock},
      {"sends to the sender", sent_to_sender, Detector::deadlock},
      {"receives from the receiver", received_from_receiver, Detector::deadlock},
      {"sends half", half_sent, Detector::mismatch},
      {"sends under another label", mislabelled, Detector::mismatch},
  };
  std::vector<Mutant> all;
  for (const char* scenario :
       {"gpt-pp4-gpipe", "gpt-pp4-1f1b", "gpt-pp3-zb-h1", "llama-pp2-interleaved",
        "llama-pp2-looped-bfs", "gpt-hsdp-tp2-pp2"}) {
    for (const char* label : {"activation", "activation gradient"}) {
      for (const Fault& fault : faults) {
        all.push_back(
            {scenario, std::string(label) + ": " + fault.bug, fault.make(label), fault.found_by});
      }
    }
  }
  for (const char* scenario : {"gpt-pp4-gpipe", "gpt-pp4-1f1b"}) {
    all.push_back(
        {scenario, "edges lead to the wrong stages", crossed_edges(), Detector::deadlock});
  }
  return all;
}

}  // namespace shardsim::test
