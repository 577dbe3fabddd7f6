#include "files/npz.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/text.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Sizes of the archive's records without their names, and their signatures.
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint32_t kEnd = 0x06054b50, kEntry = 0x02014b50, kLocal = 0x04034b50;
constexpr size_t kMaxCommentLength = 65535;
constexpr uint32_t kInZip64 = 0xffffffff;
constexpr uint16_t kStored = 0, kDeflated = 8;
// Largest ratio that Deflate reaches (zlib.net/zlib_tech.html).
constexpr int64_t kMaxDeflated = 1032;
constexpr size_t kPiece = size_t{1} << 24;

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw UserError(fmt::format("{}: {}", name, what), UserError::Kind::failure);
}

/// The file's bytes as little-endian numbers; the caller checks the bounds.
struct Bytes {
  std::span<const std::byte> all;
  uint16_t two(size_t at) const {
    return static_cast<uint16_t>(std::to_integer<unsigned>(all[at]) | std::to_integer<unsigned>(all[at + 1]) << 8);
  }
  uint32_t four(size_t at) const { return two(at) | static_cast<uint32_t>(two(at + 2)) << 16; }
  bool has(size_t at, size_t count) const { return at <= all.size() && count <= all.size() - at; }
};

/// Returns the offset of the archive's last record. It is searched from the end, because a comment may follow it.
size_t end_record(const Bytes& bytes, const std::filesystem::path& file) {
  if (bytes.has(0, kEndBytes)) {
    const size_t last = bytes.all.size() - kEndBytes;
    for (size_t at = last + 1; at-- > last - std::min(last, kMaxCommentLength);)
      if (bytes.four(at) == kEnd && bytes.two(at + 20) == last - at) return at;
  }
  const std::string_view kind = file_kind(bytes.all);
  if (bytes.has(0, 4) && bytes.four(0) == kLocal) refuse(file.string(), "has no directory at its end: it is truncated");
  refuse(file.string(), kind.empty() ? "is not an archive of NumPy arrays (.npz)"
                                     : fmt::format("is not an archive of NumPy arrays (.npz); it is {}", kind));
}

/// Inflates into exactly `size` bytes. Memory grows with the bytes that were really unpacked.
std::vector<std::byte> inflated(std::span<const std::byte> packed, uint32_t size, const std::string& name) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> close(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));  // zlib does not write to its input
  stream.avail_in = static_cast<uInt>(packed.size());
  std::vector<std::byte> bytes;
  bytes.reserve(size);  // addresses, which unpacked_limit() bounds; memory grows with the unpacked bytes
  int state = Z_OK;
  while (state == Z_OK && bytes.size() < size) {
    const size_t done = bytes.size();
    bytes.resize(std::min<size_t>(size, done + kPiece));
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + done);
    stream.avail_out = static_cast<uInt>(bytes.size() - done);
    state = inflate(&stream, Z_NO_FLUSH);
    if (stream.avail_out > 0 && state == Z_OK) refuse(name, "is damaged: what is packed ends too early");
    if (stream.avail_out > 0 && state == Z_STREAM_END)
      refuse(name, "is damaged: it unpacks to fewer bytes than it says");
  }
  if (state != Z_OK && state != Z_STREAM_END)
    refuse(name, fmt::format("is damaged: {}", stream.msg ? stream.msg : "it cannot be unpacked"));
  return bytes;
}

}  // namespace

NpzFile::NpzFile(const std::filesystem::path& file) : path_(file), file_(MappedFile::open(file)) {
  const Bytes bytes{{file_.data(), static_cast<size_t>(file_.size())}};
  const size_t end = end_record(bytes, file);
  const uint16_t count = bytes.two(end + 10);
  const uint32_t size = bytes.four(end + 12), begin = bytes.four(end + 16);
  const auto zip64 = [&] {
    refuse(file.string(), "is a zip64 archive (more than 4 GiB); save its arrays as .npy files");
  };
  if (count == 0xffff || begin == kInZip64) zip64();
  if (!bytes.has(begin, size) || size_t{begin} + size > end)
    refuse(file.string(), "has a directory outside of itself: it is damaged");
  size_t at = begin;
  for (int i = 0; i < count; ++i) {
    if (!bytes.has(at, kEntryBytes) || at + kEntryBytes > end || bytes.four(at) != kEntry)
      refuse(file.string(), fmt::format("has {} arrays, and its directory ends before the {}th", count, i + 1));
    const size_t name_size = bytes.two(at + 28);
    const size_t whole = kEntryBytes + name_size + bytes.two(at + 30) + bytes.two(at + 32);
    if (at + whole > end) refuse(file.string(), "has a directory that is damaged");
    std::string name(reinterpret_cast<const char*>(bytes.all.data()) + at + kEntryBytes, name_size);
    const std::string shown = fmt::format("{}: {}", file.string(), in_quotes(name));
    if (!name.ends_with(".npy")) refuse(shown, "is in the archive and is no array (.npy)");
    name.resize(name.size() - 4);
    const uint16_t flags = bytes.two(at + 8), method = bytes.two(at + 10);
    if (flags & 1) refuse(shown, "is encrypted");
    if (method != kStored && method != kDeflated)
      refuse(shown, fmt::format("is packed by method {}; numpy.savez and numpy.savez_compressed write what can be read",
                                method));
    const Entry entry{.offset = bytes.four(at + 42),
                      .packed = bytes.four(at + 20),
                      .unpacked = bytes.four(at + 24),
                      .checksum = bytes.four(at + 16),
                      .deflated = method == kDeflated};
    if (entry.offset == kInZip64 || entry.packed == kInZip64 || entry.unpacked == kInZip64) zip64();
    if (!entries_.emplace(name, entry).second) refuse(shown, "is in the archive twice");
    at += whole;
  }
  file_.require_whole();
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

NpyArray NpzFile::read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    refuse(path_.string(), fmt::format("has no array {}; it has: {}", in_quotes(name), few_names(names())));
  const Entry& entry = found->second;
  const std::string shown = fmt::format("{}: the array {}", path_.string(), in_quotes(name));
  const Bytes bytes{{file_.data(), static_cast<size_t>(file_.size())}};
  if (!bytes.has(entry.offset, kLocalBytes) || bytes.four(entry.offset) != kLocal)
    refuse(shown, "is not where the directory says: the file is damaged");
  const size_t begin = size_t{entry.offset} + kLocalBytes + bytes.two(entry.offset + 26) + bytes.two(entry.offset + 28);
  if (!bytes.has(begin, entry.packed)) refuse(shown, "ends behind the file's end: the file is damaged");
  const std::span<const std::byte> packed = bytes.all.subspan(begin, entry.packed);
  if (entry.deflated ? entry.unpacked > entry.packed * kMaxDeflated : entry.unpacked != entry.packed)
    refuse(shown, fmt::format("says {} bytes, which {} packed bytes cannot hold", entry.unpacked, entry.packed));
  const int64_t allowed = unpacked_limit(file_.size(), kUnpackedArrayFloor);
  if (entry.deflated && entry.unpacked > allowed)
    refuse(shown,
           fmt::format("announces {} bytes; allowed: {}, which is {} and {} for each byte of the archive; save it "
                       "with numpy.savez, which does not pack",
                       entry.unpacked, allowed, format_bytes(kUnpackedArrayFloor), kUnpackedFactor));
  require_data_memory(shown, fmt::format("announces {} bytes", entry.unpacked), static_cast<double>(entry.unpacked));
  std::vector<std::byte> unpacked;
  if (entry.deflated) unpacked = inflated(packed, entry.unpacked, shown);
  const std::span<const std::byte> array = entry.deflated ? std::span<const std::byte>(unpacked) : packed;
  const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(array.data()), array.size());
  file_.require_whole();
  if (checksum != entry.checksum) refuse(shown, "is damaged: its checksum is another");
  if (entry.deflated) return parse_npy(std::move(unpacked), shown);
  NpyArray parsed = parse_npy(array, shown);
  file_.require_whole();  // the stored bytes were read once more
  return parsed;
}

}  // namespace plimsoll
