// Declares the common parts of all fuzz targets: a private folder, the invariants of readers, inputs of several parts.
//
// A target writes its input to files in the private folder and calls a reader in reads(). A find is everything that
// ends the process: a report of a sanitizer, an exception other than UserError, a message that breaks its rules, a file
// that is opened without being named, a failed require().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::fuzz {

/// A folder of this process, in memory if the machine has /dev/shm. It is removed at the end of the process.
const std::filesystem::path& folder();

/// Writes a file that the reader may open, and returns its path.
std::filesystem::path write(const std::string& name, std::string_view bytes);

/// Writes a file that the reader may open only if the input names it.
std::filesystem::path decoy(const std::string& name, std::string_view bytes);

/// Returns the input as text.
inline std::string_view text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Separator line between two parts of an input.
constexpr std::string_view kCut = "\n%%%\n";

/// Splits the input at its first count - 1 lines of "%%%" into exactly `count` parts; the last ones are empty if there
/// are fewer.
std::vector<std::string> parts(std::string_view input, size_t count);

struct Rules {
  bool lines = false;      ///< a message may have several lines
  size_t longest = 2'000;  ///< bytes of a message
  bool names = true;       ///< the input may name other files
};

/// Runs `work` and returns whether it threw no UserError. Ends the process for another exception, for a message with
/// control characters (C0, C1, bidirectional marks), line breaks or too many bytes, and if `work` opened a file outside
/// the private folder, or a decoy, whose name is not in `input` (or that has any name, without Rules::names).
/// With PLIMSOLL_FUZZ_SHOW in the environment it prints messages.
bool reads(std::string_view input, const std::function<void()>& work, const Rules& rules = {});

/// Ends the process with `what` unless `holds`.
void require(bool holds, const char* what);

/// Reads every byte, so that a span beyond its file is found.
void touch(const void* bytes, size_t size);

}  // namespace plimsoll::fuzz
