#include "scenarios/json_value.hpp"

namespace shardsim {

const JsonValue* JsonValue::find(const std::string& key) const {
  for (const JsonMember& member : object()) {
    if (member.key == key) {
      return &member.value;
    }
  }
  return nullptr;
}

JsonValue* JsonValue::find(const std::string& key) {
  return const_cast<JsonValue*>(std::as_const(*this).find(key));
}

std::string describe(const JsonValue& value) {
  const auto as_written = [&value] {
    return printable(value.span.source->text.substr(value.span.offset, value.span.length), 40);
  };
  switch (value.data.index()) {
    case 0:
      return "null";
    case 1:
      return std::get<bool>(value.data) ? "true" : "false";
    case 2:
    case 3:
      return "the number " + as_written();
    case 4:
      return "the string \"" + printable(value.string(), 40) + "\"";
    case 5:
      return "a list";
    default:
      return "an object";
  }
}

}  // namespace shardsim
