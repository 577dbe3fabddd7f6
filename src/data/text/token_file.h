// Declares tokens on disk, memory mapped, and the text files that they are made from: a text is tokenized once, for
// any number of jobs that train on it.
//
//     | count tokens of `width` bytes | XXH3 of each 64 KiB of them |
//     | magic | version | width | vocab size | count | source hash | hash of these XXH3 | trailer hash |
//       8       4         4       8            8       8             8                    8        bytes
//
// The trailer is at the end, because a text is tokenized as it is read; a truncated file has none. Numbers have the
// byte order of the machine that wrote the file; on a machine of the other byte order the magic does not match.
//
// Bounds: the file is mapped; memory is 9 bytes for each 64 KiB of it. Every number of the trailer is checked against
// the file's size. The checksum of a block is verified when one of its tokens is read first; later reads do not pay for
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "data/text/tokenizer.h"
#include "files/text_file.h"

namespace plimsoll {

/// A token file, open for reading. Any number of threads may read it.
class TokenFile {
 public:
  /// Maps the file and checks its trailer against its size. Throws UserError if the file is truncated or no token file
  /// of this version; the message says to delete the file, because the next run writes it again.
  explicit TokenFile(const std::filesystem::path& file);

  int64_t size() const { return size_; }              ///< tokens
  int64_t vocab_size() const { return vocab_size_; }  ///< upper bound (exclusive) of tokens
  int64_t token_bytes() const { return width_; }      ///< 2 or 4: bytes a token takes in the file
  uint64_t source_hash() const { return source_hash_; }

  /// Returns token `index`, 0 <= index < size(). Throws UserError if the file holds one outside the vocabulary.
  int32_t token(int64_t index) const;

  /// Copies tokens [begin, begin + count) to `out`. Throws UserError if the file holds one outside the vocabulary.
  /// Throws UserError (failure) if the checksum of the tokens differs, or if the file has lost bytes since it was
  /// opened.
  void copy(int64_t begin, int64_t count, int64_t* out) const;

 private:
  void verify(int64_t begin, int64_t count) const;
  /// Returns the blocks of the tokens to the system, with the pages around them that it mapped as well: a file that is
  /// read once would otherwise be resident as a whole.
  void release(int64_t begin, int64_t count) const;
  void require_whole() const;

  std::filesystem::path file_;
  MappedFile map_;  // begins with the tokens
  std::vector<uint64_t> block_hashes_;
  std::unique_ptr<std::atomic<bool>[]> verified_;  // for each block
  int64_t width_ = 0;
  int64_t size_ = 0;
  int64_t vocab_size_ = 0;
  uint64_t source_hash_ = 0;
};

/// A writer of a token file through an AtomicFile: the whole file exists once finish() returns, and not before. Errors
/// of the system (disk full, no permission) are UserErrors that name the file.
class TokenFileWriter {
 public:
  /// `source_hash` identifies the source of the tokens; a reader compares it. Tokens take 2 bytes if the vocabulary (1
  /// to 2^31) allows it.
  TokenFileWriter(const std::filesystem::path& file, int64_t vocab_size, uint64_t source_hash);

  /// Each token is in [0, vocab_size).
  void append(std::span<const int32_t> tokens);
  void finish();

 private:
  void write(std::span<const std::byte> bytes);
  void end_block();

  AtomicFile file_;
  ContentHasher block_;
  size_t in_block_ = 0;  // bytes
  std::vector<uint64_t> block_hashes_;
  int64_t vocab_size_;
  uint64_t source_hash_;
  int64_t size_ = 0;
};

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
