#include "backends/call_record.hpp"

#include <string_view>

#include "sim/hardware/collective_rows.hpp"

namespace shardsim {

std::string CallRecord::describe() const {
  std::string text = name;
  if (reduces) text += std::string(" ") + name_of(reduce);
  if (count >= 0) text += " " + std::string(name_of(dtype)) + " x " + std::to_string(count);
  if (root >= 0) {
    const std::string_view call(name);
    text += call == "send" ? " to " : call == "recv" ? " from " : " root ";
    text += std::to_string(root);
  }
  if (tag != kNoTag) {
    if (root < 0) text += " from any";
    text += tag < 0 ? " with any tag" : " with tag " + std::to_string(tag);
  }
  if (*label != '\0') text += std::string(" \"") + label + "\"";
  if (padding != 0) text += " with " + std::to_string(padding) + " of padding";
  // Making groups counts as scalars throughout; saying so each time would tell nothing.
  if (traffic == TrafficClass::scalar && !makes_groups(name)) text += " as scalars";
  return text;
}

}  // namespace shardsim
