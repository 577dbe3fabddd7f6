#include "data/tokenizers/token_cache.h"

#include <fmt/format.h>

#include <chrono>
#include <span>

#include "base/file_error.h"
#include "base/hash.h"
#include "base/nearest_file.h"
#include "data/tokenizers/token_file.h"
#include "files/data_notes.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr std::size_t kBlock = 4 * MiB;  // bytes of text tokenized at a time

// Raised whenever the same text gets other tokens for a reason that no fingerprint shows: the input bytes, the position
// of end of text. A change of one kind of tokenizer raises the number in its fingerprint instead. 2: the files have
// checksums.
constexpr int kCacheFormat = 2;

}  // namespace

TextFile TextFile::look_at(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    throw UserError(fmt::format("data.files: {} does not exist{}", path.string(), absent_file_advice(path)));
  if (!std::filesystem::is_regular_file(status))
    throw UserError(
        fmt::format("data.files: {} is not a regular file; give files, not folders or pipes", path.string()));
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw_file_error("read", path, error.value());
  if (bytes == 0) throw UserError(fmt::format("data.files: {} is empty", path.string()));
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) throw_file_error("read", path, error.value());
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch());
  return {path, static_cast<int64_t>(bytes), static_cast<int64_t>(since.count())};
}

uint64_t token_cache_key(const TextFile& text, const Tokenizer& tokenizer, TextForm form) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::canonical(text.path, error);
  if (error) throw_file_error("read", text.path, error.value());
  const char* const formed = form == TextForm::packed ? ":packed" : form == TextForm::marked ? ":marked" : "";
  return mix64(hash_bytes(fmt::format("{}:{}:{}:{}:{}:{}{}", kCacheFormat, text.bytes, text.changed_at,
                                      tokenizer.fingerprint(), tokenizer.vocab_size(), absolute.string(), formed)));
}

std::filesystem::path token_cache_file(const std::filesystem::path& directory, const TextFile& text, uint64_t key) {
  return directory / fmt::format("{}-{:016x}.tokens", text.path.filename().string().substr(0, 100), key);
}

void tokenize_file(const TextFile& text, const Tokenizer& tokenizer, const std::filesystem::path& file, uint64_t key,
                   const std::function<void(int64_t bytes)>& progress) {
  TextBytes source(text.path, "data.files: " + text.path.string());
  const bool noted = !source.note().empty();  // by the reader that looked at the file before
  TokenFileWriter writer(file, tokenizer.vocab_size(), key);
  std::string held;  // read and not tokenized yet: its last token may continue in the next block
  int64_t read = 0;
  while (true) {
    const std::size_t before = held.size();
    held.resize(before + kBlock);
    const std::size_t count = source.read(std::span(held).subspan(before));
    held.resize(before + count);
    read = source.file_bytes_read();
    // Detects a text that grows without end before the disk is full.
    if (count < kBlock || read > text.bytes) break;
    // No position before the last character of the held text is a cut. Only the block is searched; otherwise a text
    // without any cut would take time that grows with its square.
    const std::size_t searched = before > 0 ? before - 1 : 0;
    const std::size_t found = tokenizer.last_cut(std::string_view(held).substr(searched));
    const std::size_t cut = found > 0 ? searched + found : 0;
    if (cut == 0) {
      progress(read);
      continue;
    }
    writer.append(tokenizer.encode(std::string_view(held).substr(0, cut)));
    held.erase(0, cut);
    progress(read);
  }
  if ((source.form() != TextForm::packed && read != text.bytes) || TextFile::look_at(text.path) != text)
    throw UserError(fmt::format("data.files: {} changed while it was being tokenized; start again when it is at rest",
                                text.path.string()),
                    UserError::Kind::failure);
  if (!noted && !source.note().empty()) note_data(text.path, source.note());
  writer.append(tokenizer.encode(held));
  const int32_t end = tokenizer.end_of_text();
  writer.append({&end, 1});
  writer.finish();
  progress(read);
}

}  // namespace plimsoll
