#include "data/text/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/file_error.h"
#include "base/hash.h"
#include "base/names.h"
#include "files/file_kind.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr uint64_t kMagic = 0x316b6f746d696c70;  // "plimtok1", little-endian
constexpr uint32_t kVersion = 2;
// Bytes of tokens with one checksum: the first read of a token reads them all.
constexpr size_t kBlockBytes = size_t{1} << 16;

struct Trailer {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t width = 0;
  uint64_t vocab_size = 0;
  uint64_t count = 0;
  uint64_t source_hash = 0;
  uint64_t blocks_hash = 0;   // hash of the blocks' checksums
  uint64_t trailer_hash = 0;  // hash of the fields above

  uint64_t hash() const { return hash_bytes({reinterpret_cast<const char*>(this), offsetof(Trailer, trailer_hash)}); }
};
static_assert(sizeof(Trailer) == 56 && std::has_unique_object_representations_v<Trailer>,
              "the layout is that of the file");

int64_t width_for(int64_t vocab_size) {
  return vocab_size <= (int64_t{1} << 16) ? 2 : 4;
}

UserError corrupt(const std::filesystem::path& file, std::string_view what) {
  return UserError(
      fmt::format("token file {}: {}; delete it, it will be made again from the text", file.string(), what),
      UserError::Kind::failure);
}

/// Returns true if all tokens are less than `vocab_size`. The two loops are separate so that each becomes vector
/// instructions; together they pay for the checksums of a first read.
template <typename Token>
bool copy_tokens(const Token* __restrict tokens, int64_t count, int64_t vocab_size, int64_t* __restrict out) {
  Token maximum = 0;
  for (int64_t i = 0; i < count; ++i) maximum = std::max(maximum, tokens[i]);
  for (int64_t i = 0; i < count; ++i) out[i] = tokens[i];
  return maximum < vocab_size;
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& file) : file_(file), map_(MappedFile::open(file)) {
  const auto bytes = static_cast<uint64_t>(map_.size());
  if (bytes < sizeof(Trailer)) throw corrupt(file, "it is too short to be one");
  const uint64_t behind = bytes - sizeof(Trailer);
  Trailer trailer;
  std::memcpy(&trailer, map_.data() + behind, sizeof trailer);
  require_whole();
  if (trailer.magic != kMagic) throw corrupt(file, "it is cut short, or not a token file of this kind of machine");
  if (trailer.version != kVersion)
    throw corrupt(file, fmt::format("its version is {}, this program reads {}", trailer.version, kVersion));
  if (trailer.trailer_hash != trailer.hash()) throw corrupt(file, "its trailer is damaged");
  if (trailer.vocab_size < 1 || trailer.vocab_size > (uint64_t{1} << 31) ||
      trailer.width != width_for(static_cast<int64_t>(trailer.vocab_size)))
    throw corrupt(file, "its trailer contradicts itself");
  // In this order of checks, nothing overflows.
  const uint64_t payload = trailer.count <= behind / trailer.width ? trailer.count * trailer.width : behind + 1;
  const uint64_t blocks = payload / kBlockBytes + (payload % kBlockBytes != 0 ? 1 : 0);
  if (payload > behind || behind - payload != blocks * sizeof(uint64_t))
    throw corrupt(
        file, fmt::format("it has {} bytes of tokens and checksums, its trailer promises {} tokens of {} bytes", behind,
                          trailer.count, trailer.width));

  block_hashes_.resize(blocks);
  verified_ = std::make_unique<std::atomic<bool>[]>(blocks);
  const std::span hashes = std::as_writable_bytes(std::span(block_hashes_));
  if (blocks > 0) std::memcpy(hashes.data(), map_.data() + payload, hashes.size());
  require_whole();
  if (content_hash(hashes) != trailer.blocks_hash) throw corrupt(file, "its checksums are damaged");
  width_ = trailer.width;
  size_ = static_cast<int64_t>(trailer.count);
  vocab_size_ = static_cast<int64_t>(trailer.vocab_size);
  source_hash_ = trailer.source_hash;
}

int32_t TokenFile::token(int64_t index) const {
  int64_t value = 0;
  copy(index, 1, &value);
  return static_cast<int32_t>(value);
}

void TokenFile::copy(int64_t begin, int64_t count, int64_t* out) const {
  check(begin >= 0 && count >= 0 && begin <= size_ && count <= size_ - begin, "tokens past the end of a token file");
  verify(begin, count);
  const bool valid = width_ == 2
                         ? copy_tokens(reinterpret_cast<const uint16_t*>(map_.data()) + begin, count, vocab_size_, out)
                         : copy_tokens(reinterpret_cast<const uint32_t*>(map_.data()) + begin, count, vocab_size_, out);
  require_whole();
  release(begin, count);
  if (!valid)
    throw corrupt(file_, fmt::format("tokens {} to {} are not all less than its vocabulary of {}", begin,
                                     begin + count - 1, vocab_size_));
}

void TokenFile::release(int64_t begin, int64_t count) const {
  if (count < 2) return;  // tokens that are read one by one are near one another
  const auto whole = static_cast<size_t>(map_.size());
  const size_t first = static_cast<size_t>(begin * width_) / kBlockBytes * kBlockBytes;
  const size_t last = static_cast<size_t>((begin + count) * width_ - 1) / kBlockBytes * kBlockBytes;
  MappedFile::release_pages({map_.data() + first, std::min(whole, last + kBlockBytes) - first});
}

void TokenFile::verify(int64_t begin, int64_t count) const {
  if (count == 0) return;
  const size_t first = static_cast<size_t>(begin * width_) / kBlockBytes;
  const size_t last = static_cast<size_t>((begin + count) * width_ - 1) / kBlockBytes;
  for (size_t block = first; block <= last; ++block) {
    // Two threads may verify one block; both get the same result.
    if (verified_[block].load(std::memory_order_relaxed)) continue;
    const size_t at = block * kBlockBytes, bytes = std::min(kBlockBytes, static_cast<size_t>(size_ * width_) - at);
    const uint64_t hash = content_hash({map_.data() + at, bytes});
    require_whole();
    if (hash != block_hashes_[block])
      throw corrupt(
          file_, fmt::format("bytes {} to {} do not have the checksum that was written with them", at, at + bytes - 1));
    verified_[block].store(true, std::memory_order_relaxed);
  }
}

void TokenFile::require_whole() const {
  if (!map_.is_whole())
    throw corrupt(file_, fmt::format("it had {} bytes when it was opened, and has lost some of them while it was read",
                                     map_.size()));
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& file, int64_t vocab_size, uint64_t source_hash)
    : file_(file), vocab_size_(vocab_size), source_hash_(source_hash) {
  check(vocab_size >= 1 && vocab_size <= (int64_t{1} << 31), "a token file's vocabulary has 1 to 2^31 tokens");
}

void TokenFileWriter::append(std::span<const int32_t> tokens) {
  for (int32_t token : tokens) check(token >= 0 && token < vocab_size_, "a token outside the vocabulary");
  if (width_for(vocab_size_) == 2) {
    const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
    write(std::as_bytes(std::span(narrow)));
  } else {
    write(std::as_bytes(tokens));
  }
  size_ += static_cast<int64_t>(tokens.size());
}

void TokenFileWriter::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  while (!bytes.empty()) {
    const size_t taken = std::min(bytes.size(), kBlockBytes - in_block_);
    block_.update(bytes.first(taken));
    in_block_ += taken;
    bytes = bytes.subspan(taken);
    if (in_block_ == kBlockBytes) end_block();
  }
}

void TokenFileWriter::end_block() {
  block_hashes_.push_back(block_.digest());
  block_.reset();
  in_block_ = 0;
}

void TokenFileWriter::finish() {
  if (in_block_ > 0) end_block();
  const auto checksums = std::as_bytes(std::span(block_hashes_));
  file_.write(checksums);
  Trailer trailer;
  trailer.blocks_hash = content_hash(checksums);
  trailer.width = static_cast<uint32_t>(width_for(vocab_size_));
  trailer.vocab_size = static_cast<uint64_t>(vocab_size_);
  trailer.count = static_cast<uint64_t>(size_);
  trailer.source_hash = source_hash_;
  trailer.trailer_hash = trailer.hash();
  file_.write(std::as_bytes(std::span(&trailer, 1)));
  file_.commit();
}

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
