// A file of tokens that an earlier job left.
#include "data/text/token_file.h"

#include "base/hash.h"
#include "checksums.h"
#include "fuzz.h"

using namespace plimsoll;

namespace {

constexpr size_t kTrailer = 56, kBlock = 1 << 16;

/// Writes the right checksums of one block and of the trailer.
void mend(uint8_t* data, size_t size) {
  if (size < kTrailer + 8) return;
  const auto hash = [&](size_t begin, size_t bytes) {
    return content_hash({reinterpret_cast<const std::byte*>(data + begin), bytes});
  };
  uint8_t* const trailer = data + size - kTrailer;
  const size_t tokens = size - kTrailer - 8;
  static_assert(kBlock > 8192, "inputs have one block");
  fuzz::put_little_endian(data + tokens, hash(0, tokens), 8);
  const uint64_t width = fuzz::little_endian(trailer + 12, 4);
  if (size % 2 == 0 && width > 0) fuzz::put_little_endian(trailer + 24, tokens / width, 8);
  fuzz::put_little_endian(trailer + 40, hash(tokens, 8), 8);
  fuzz::put_little_endian(trailer + 48, hash_bytes({reinterpret_cast<const char*>(trailer), 48}), 8);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate(data, size, max_size, seed, mend);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path path = fuzz::write("input.tokens", input);
  fuzz::reads(input, [&] {
    const TokenFile file(path);
    std::vector<int64_t> tokens(static_cast<size_t>(file.size()));
    file.copy(0, file.size(), tokens.data());
    for (const int64_t token : tokens)
      fuzz::require(token >= 0 && token < file.vocab_size(), "a token outside the vocabulary");
    if (file.size() > 0) fuzz::require(file.token(file.size() - 1) == tokens.back(), "a token reads as two");
  });
  return 0;
}
