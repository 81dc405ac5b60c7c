#pragma once

#include <string>
#include <string_view>

// Packs the large parts of a page.
namespace shardsim::html {

/// gzip (RFC 1952) without a time or a name, in base64. Equal texts give equal ones with the same
/// zlib. Throws Error (internal) if zlib fails.
[[nodiscard]] std::string gzip_base64(std::string_view text);

}  // namespace shardsim::html
