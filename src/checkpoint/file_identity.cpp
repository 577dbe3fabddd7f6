#include "checkpoint/file_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>

#include "base/content_hash.h"
#include "base/file_error.h"
#include "base/mapped_file.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxSubfolders = 2;

/// A number is hashed in little-endian order, so that machines agree.
void add_number(ContentHasher& hasher, uint64_t number) {
  std::array<std::byte, sizeof number> bytes{};
  for (std::byte& each : bytes) {
    each = static_cast<std::byte>(number & 0xff);
    number >>= 8;
  }
  hasher.update(bytes);
}

void add(ContentHasher& hasher, const FileIdentity& identity) {
  add_number(hasher, static_cast<uint64_t>(identity.files));
  add_number(hasher, static_cast<uint64_t>(identity.bytes));
  add_number(hasher, identity.hash);
}

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

}  // namespace

FileIdentity identity_of_file(const fs::path& file) {
  const MappedFile mapped = MappedFile::open(file);
  ContentHasher hasher;
  const auto take = [&](int64_t begin, int64_t bytes) {
    const std::span part(mapped.data() + begin, static_cast<size_t>(bytes));
    hasher.update(part);
    MappedFile::release_pages(part);
  };
  const int64_t size = mapped.size();
  if (size > kMaxWholeHashBytes)
    for (int64_t i = 0; i < kHashedBlocks; ++i) {
      // Quotient and remainder apart: the product of a size near 2^63 and 63 is no 64-bit number.
      const int64_t room = size - kHashedBlockBytes, gaps = kHashedBlocks - 1;
      take(room / gaps * i + room % gaps * i / gaps, kHashedBlockBytes);
    }
  else if (size > 0)
    take(0, size);
  mapped.require_whole();
  return {.files = 1, .bytes = size, .hash = hasher.digest()};
}

FileIdentity identity_of_folder(const fs::path& folder, const std::function<bool(const fs::path& file)>& accepts) {
  std::map<std::string, fs::path> files;  // by relative name
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path& path = entry->path();
    if (is_hidden(path) || entry.depth() == kMaxSubfolders) entry.disable_recursion_pending();
    std::error_code ignored;
    if (!is_hidden(path) && fs::is_regular_file(path, ignored) && (!accepts || accepts(path)))
      files.emplace(path.lexically_relative(folder).generic_string(), path);
  }
  if (error) throw_file_error("read the folder", folder, error.value());
  FileIdentity all{.files = 0};
  ContentHasher hasher;
  for (const auto& [name, path] : files) {
    const FileIdentity each = identity_of_file(path);
    ++all.files;
    all.bytes += each.bytes;
    add_number(hasher, name.size());
    hasher.update(std::as_bytes(std::span(name)));
    add(hasher, each);
  }
  all.hash = hasher.digest();
  return all;
}

FileIdentity identity_of_all(const std::vector<FileIdentity>& each) {
  FileIdentity all{.files = 0};
  ContentHasher hasher;
  for (const FileIdentity& one : each) {
    all.files += one.files;
    all.bytes += one.bytes;
    add(hasher, one);
  }
  all.hash = hasher.digest();
  return all;
}

std::string identity_text(const FileIdentity& identity) {
  const std::string bytes = fmt::format("{} bytes (hash {:016x})", identity.bytes, identity.hash);
  return identity.files == 1 ? bytes : fmt::format("{} files of {}", identity.files, bytes);
}

}  // namespace plimsoll
