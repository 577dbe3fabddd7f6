// Text files and the token files made from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll {

/// A text file as it was when it was looked at: what its tokens are cached by.
struct TextFile {
  std::filesystem::path path;
  int64_t bytes = 0;
  int64_t changed_at = 0;  ///< nanoseconds, on the file system's clock

  /// Throws UserError that names the file when it is missing, not a regular file or empty.
  static TextFile look_at(const std::filesystem::path& path);

  bool operator==(const TextFile&) const = default;
};

/// Names this text, tokenised so: a hash of the file's absolute path, size and time of change and of the tokenizer.
uint64_t token_cache_key(const TextFile& text, const Tokenizer& tokenizer);

/// The token file of that key: "gcide.txt-0123456789abcdef.tokens".
std::filesystem::path token_cache_file(const std::filesystem::path& directory, const TextFile& text, uint64_t key);

/// Tokenises `text` into `file`, ended by end of text; `progress` gets the bytes read so far. Holds a few MiB at a
/// time. Throws UserError when the text cannot be read, when it is no longer as it was looked at, and when `file`
/// cannot be written.
void tokenize_file(const TextFile& text, const Tokenizer& tokenizer, const std::filesystem::path& file, uint64_t key,
                   const std::function<void(int64_t bytes)>& progress);

}  // namespace plimsoll
