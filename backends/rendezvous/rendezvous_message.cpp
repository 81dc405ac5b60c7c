#include "backends/rendezvous/rendezvous_message.hpp"

#include "backends/rendezvous/lasting_text.hpp"

namespace shardsim {

CallRecord CallFingerprint::record() const {
  CallRecord record;
  record.name = name.c_str();
  record.reduce = reduce;
  record.reduces = reduces;
  record.dtype = dtype;
  record.root = root;
  record.count = count;
  record.label = label.c_str();
  record.counts_hash = counts_hash;
  record.padding = padding;
  record.traffic = traffic;
  return record;
}

CallRecord CallFingerprint::record_with_site() const {
  CallRecord record = this->record();
  record.site = {.file = lasting_text(file), .line = line, .function = lasting_text(function)};
  return record;
}

}  // namespace shardsim
