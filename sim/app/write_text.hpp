#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

namespace shardsim {

/// Writes a file that a command was asked for, over what was there, and says so on `err`. Throws
/// UsageError (E0901).
void write_text(const std::filesystem::path& path, const std::string& text, std::ostream& err);

/// Writes a file under another name first, and its folder if that is missing: nobody ever finds
/// half a file, and a failure or an interrupt leaves what was there before. Throws Error (E0901),
/// `fix` being its way out.
void write_complete(const std::filesystem::path& path, const std::string& text,
                    const std::string& fix);

}  // namespace shardsim
