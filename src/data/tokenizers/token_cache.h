// Declares text files and the token files made from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "data/tokenizers/tokenizer.h"
#include "files/text_file.h"

namespace plimsoll {

/// A text file at the time when it was looked at: the key of its cached tokens.
struct TextFile {
  std::filesystem::path path;
  int64_t bytes = 0;
  int64_t changed_at = 0;  ///< nanoseconds, on the file system's clock

  /// Throws UserError that names the file if it is missing, not a regular file or empty.
  static TextFile look_at(const std::filesystem::path& path);

  bool operator==(const TextFile&) const = default;
};

/// Returns the key of this text with this tokenizer: a hash of the file's absolute path, size and time of change, of
/// the tokenizer, and of a form that is not plain.
uint64_t token_cache_key(const TextFile& text, const Tokenizer& tokenizer, TextForm form = TextForm::plain);

/// Returns the token file of a key: "gcide.txt-0123456789abcdef.tokens".
std::filesystem::path token_cache_file(const std::filesystem::path& directory, const TextFile& text, uint64_t key);

/// Tokenizes `text` into `file`, ended by end of text; `progress` receives the bytes of the file read so far. A byte
/// order mark is skipped, and a packed text is unpacked (files/text_file.h). Holds a few MiB at a time. Throws
/// UserError if the file cannot be read or is no text, if it has changed since it was looked at, or if `file` cannot be
/// written.
void tokenize_file(const TextFile& text, const Tokenizer& tokenizer, const std::filesystem::path& file, uint64_t key,
                   const std::function<void(int64_t bytes)>& progress);

}  // namespace plimsoll
