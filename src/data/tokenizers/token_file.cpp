#include "data/tokenizers/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/file_error.h"
#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr uint64_t kMagic = 0x316b6f746d696c70;  // "plimtok1", little-endian
constexpr uint32_t kVersion = 1;

struct Trailer {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t width = 0;
  uint64_t vocab_size = 0;
  uint64_t count = 0;
  uint64_t source_hash = 0;
  uint64_t trailer_hash = 0;  // of what stands before it

  uint64_t hash() const { return hash_bytes({reinterpret_cast<const char*>(this), offsetof(Trailer, trailer_hash)}); }
};
static_assert(sizeof(Trailer) == 48 && std::has_unique_object_representations_v<Trailer>,
              "the layout is that of the file");

int64_t width_for(int64_t vocab_size) {
  return vocab_size <= (int64_t{1} << 16) ? 2 : 4;
}

UserError corrupt(const std::filesystem::path& file, std::string_view what) {
  return UserError(
      fmt::format("token file {}: {}; delete it, it will be made again from the text", file.string(), what),
      UserError::Kind::failure);
}

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
};

template <typename Token>
bool copy_tokens(const Token* tokens, int64_t count, int64_t vocab_size, int64_t* out) {
  bool valid = true;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = tokens[i];
    valid &= out[i] < vocab_size;
  }
  return valid;
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& file) : file_(file) {
  const Descriptor descriptor{open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (descriptor.value < 0) throw_file_error("open token file", file, errno);
  struct stat status;
  if (fstat(descriptor.value, &status) != 0) throw_file_error("read token file", file, errno);
  if (!S_ISREG(status.st_mode)) throw corrupt(file, "it is not a regular file");
  const auto bytes = static_cast<uint64_t>(status.st_size);
  if (bytes < sizeof(Trailer)) throw corrupt(file, "it is too short to be one");

  Trailer trailer;
  if (pread(descriptor.value, &trailer, sizeof trailer, static_cast<off_t>(bytes - sizeof trailer)) != sizeof trailer)
    throw_file_error("read token file", file, errno);
  if (trailer.magic != kMagic) throw corrupt(file, "it is cut short, or not a token file of this kind of machine");
  if (trailer.version != kVersion)
    throw corrupt(file, fmt::format("its version is {}, this program reads {}", trailer.version, kVersion));
  if (trailer.trailer_hash != trailer.hash()) throw corrupt(file, "its trailer is damaged");
  if (trailer.vocab_size < 1 || trailer.vocab_size > (uint64_t{1} << 31) ||
      trailer.width != width_for(static_cast<int64_t>(trailer.vocab_size)))
    throw corrupt(file, "its trailer contradicts itself");
  const uint64_t payload = bytes - sizeof(Trailer);
  if (payload % trailer.width != 0 || payload / trailer.width != trailer.count)
    throw corrupt(file, fmt::format("it has {} bytes of tokens, its trailer promises {} tokens of {} bytes", payload,
                                    trailer.count, trailer.width));

  void* map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor.value, 0);
  if (map == MAP_FAILED) throw_file_error("map token file", file, errno);
  map_ = map;
  map_bytes_ = bytes;
  tokens_ = map;
  width_ = trailer.width;
  size_ = static_cast<int64_t>(trailer.count);
  vocab_size_ = static_cast<int64_t>(trailer.vocab_size);
  source_hash_ = trailer.source_hash;
}

TokenFile::~TokenFile() {
  if (map_) munmap(map_, map_bytes_);
}

TokenFile::TokenFile(TokenFile&& other) noexcept {
  *this = std::move(other);
}

TokenFile& TokenFile::operator=(TokenFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(map_, other.map_);
  std::swap(map_bytes_, other.map_bytes_);
  std::swap(tokens_, other.tokens_);
  std::swap(width_, other.width_);
  std::swap(size_, other.size_);
  std::swap(vocab_size_, other.vocab_size_);
  std::swap(source_hash_, other.source_hash_);
  return *this;
}

int32_t TokenFile::token(int64_t index) const {
  int64_t value = 0;
  copy(index, 1, &value);
  return static_cast<int32_t>(value);
}

void TokenFile::copy(int64_t begin, int64_t count, int64_t* out) const {
  check(begin >= 0 && count >= 0 && begin <= size_ && count <= size_ - begin, "tokens past the end of a token file");
  const bool valid = width_ == 2 ? copy_tokens(static_cast<const uint16_t*>(tokens_) + begin, count, vocab_size_, out)
                                 : copy_tokens(static_cast<const uint32_t*>(tokens_) + begin, count, vocab_size_, out);
  if (!valid)
    throw corrupt(file_, fmt::format("tokens {} to {} are not all less than its vocabulary of {}", begin,
                                     begin + count - 1, vocab_size_));
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& file, int64_t vocab_size, uint64_t source_hash)
    : file_(file), vocab_size_(vocab_size), source_hash_(source_hash) {
  check(vocab_size >= 1 && vocab_size <= (int64_t{1} << 31), "a token file's vocabulary has 1 to 2^31 tokens");
}

void TokenFileWriter::append(std::span<const int32_t> tokens) {
  for (int32_t token : tokens) check(token >= 0 && token < vocab_size_, "a token outside the vocabulary");
  if (width_for(vocab_size_) == 2) {
    const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
    file_.write(std::as_bytes(std::span(narrow)));
  } else {
    file_.write(std::as_bytes(tokens));
  }
  size_ += static_cast<int64_t>(tokens.size());
}

void TokenFileWriter::finish() {
  Trailer trailer;
  trailer.width = static_cast<uint32_t>(width_for(vocab_size_));
  trailer.vocab_size = static_cast<uint64_t>(vocab_size_);
  trailer.count = static_cast<uint64_t>(size_);
  trailer.source_hash = source_hash_;
  trailer.trailer_hash = trailer.hash();
  file_.write(std::as_bytes(std::span(&trailer, 1)));
  file_.commit();
}

}  // namespace plimsoll
