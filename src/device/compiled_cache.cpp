#include "device/compiled_cache.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <span>

#include "base/atomic_file.h"
#include "base/content_hash.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Before the code; the key, which is long, by two hashes and its length.
struct Header {
  char magic[16] = "plimsoll code 1";
  uint64_t key_hash = 0;
  uint64_t key_check = 0;
  uint64_t key_bytes = 0;
  uint64_t code_bytes = 0;
  uint64_t code_hash = 0;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 56);

constexpr uint64_t kMostCodeBytes = 64 << 20;

uint64_t hash_of(std::string_view text) {
  return content_hash(std::as_bytes(std::span(text)));
}

Header header_of(std::string_view key, const std::vector<std::byte>& code) {
  Header header;
  header.key_hash = hash_of(key);
  header.key_check = hash_of(std::string(key) + "\n");
  header.key_bytes = key.size();
  header.code_bytes = code.size();
  header.code_hash = content_hash(code);
  return header;
}

}  // namespace

std::filesystem::path CompiledCache::file_of(std::string_view key) const {
  return folder_ / fmt::format("{:016x}.cubin", hash_of(key));
}

std::optional<std::vector<std::byte>> CompiledCache::find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(file_of(key), std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  const auto size = static_cast<int64_t>(file.tellg());
  Header header;
  file.seekg(0);
  if (size < static_cast<int64_t>(sizeof header) || !file.read(reinterpret_cast<char*>(&header), sizeof header))
    return std::nullopt;
  // What the file says of itself is believed only as far as the file goes.
  if (header.code_bytes > kMostCodeBytes || header.code_bytes != static_cast<uint64_t>(size) - sizeof header)
    return std::nullopt;
  std::vector<std::byte> code(header.code_bytes);
  if (!file.read(reinterpret_cast<char*>(code.data()), static_cast<std::streamsize>(code.size()))) return std::nullopt;
  const Header expected = header_of(key, code);
  if (std::memcmp(&header, &expected, sizeof header) != 0) return std::nullopt;
  return code;
}

void CompiledCache::keep(std::string_view key, const std::vector<std::byte>& code) const {
  if (folder_.empty()) return;
  try {
    std::filesystem::create_directories(folder_);
    AtomicFile file(file_of(key));
    const Header header = header_of(key, code);
    file.write(std::as_bytes(std::span(&header, 1)));
    file.write(code);
    file.commit();
  } catch (const UserError&) {
  } catch (const std::filesystem::filesystem_error&) {
  }
}

}  // namespace plimsoll
