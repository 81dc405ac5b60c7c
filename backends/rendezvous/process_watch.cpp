#include "backends/rendezvous/process_watch.hpp"

namespace shardsim {

namespace {

CallFingerprint fingerprint_of(const CallWatch::Call& call) {
  const CallRecord& record = call.record;
  CallFingerprint fingerprint;
  fingerprint.group = call.group;
  fingerprint.members.assign(call.members.begin(), call.members.end());
  fingerprint.instance = call.instance;
  fingerprint.member = call.member;
  fingerprint.name = record.name;
  fingerprint.label = record.label;
  fingerprint.reduce = record.reduce;
  fingerprint.reduces = record.reduces;
  fingerprint.dtype = record.dtype;
  fingerprint.root = record.root;
  fingerprint.count = record.count;
  fingerprint.counts_hash = record.counts_hash;
  fingerprint.padding = record.padding;
  fingerprint.traffic = record.traffic;
  fingerprint.file = record.site.file;
  fingerprint.line = record.site.line;
  fingerprint.function = record.site.function;
  return fingerprint;
}

}  // namespace

void ProcessWatch::posted(const Call& call) {
  recorder_.posted(call);
  if (!sends_fingerprints_) return;
  CallFingerprint fingerprint = fingerprint_of(call);
  if (call.halves.empty()) {
    client_.post(fingerprint);
    return;
  }
  fingerprint.is_message = true;
  for (const Half& half : call.halves) {
    fingerprint.sends = half.sends;
    fingerprint.name = half.sends ? "send" : "recv";
    fingerprint.root = half.peer;
    fingerprint.dtype = half.dtype;
    fingerprint.count = half.count;
    client_.post(fingerprint);
  }
}

}  // namespace shardsim
