#include "safetensors/safetensors.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "base/text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian and is mapped, not converted");

constexpr int64_t kLengthBytes = 8;
constexpr std::string_view kHashPrefix = "hash:";
constexpr std::string_view kHeaderHash = "hash:__metadata__";

std::string hash_text(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace

namespace {

/// Returns a guess about a file that is no safetensors file, from its first bytes.
std::string_view what_it_may_be(const MappedFile& map) {
  const std::string_view begin(reinterpret_cast<const char*>(map.data()), kLengthBytes);
  if (begin.starts_with("GGUF")) return "it is a GGUF file";
  if (begin.starts_with("PK\x03\x04") || begin.starts_with("\x80\x02") || begin.starts_with("\x80\x04"))
    return "it is what torch.save writes, a pickle, which can run programs: save the weights as safetensors";
  return "is it a safetensors file?";
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.path_ = path.string();
  const MappedFile map = MappedFile::open(path);
  if (map.size() < kLengthBytes) {
    throw truncated_file(file.path_, fmt::format("it holds {} bytes, the length of its header alone takes {}",
                                                 map.size(), kLengthBytes));
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, map.data(), sizeof header_bytes);
  if (header_bytes > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    throw corrupt_file(file.path_, fmt::format("its header would take {} bytes where {} are allowed ({})", header_bytes,
                                               kMaxSafetensorsHeader, what_it_may_be(map)));
  }
  int64_t data_begin = kLengthBytes + static_cast<int64_t>(header_bytes);
  if (data_begin > map.size()) {
    throw truncated_file(file.path_, fmt::format("its header ends at byte {}, the file at {}", data_begin, map.size()));
  }
  std::string_view json(reinterpret_cast<const char*>(map.data()) + kLengthBytes, header_bytes);
  file.header_ = parse_safetensors_header(json, map.size() - data_begin, file.path_);
  const std::byte* data = map.data() + data_begin;
  for (const SafetensorsEntry& entry : file.header_.tensors) {
    std::span<const std::byte> bytes(data + entry.begin, static_cast<size_t>(entry.end - entry.begin));
    file.tensors_.emplace(entry.name, StoredTensor{entry.dtype, entry.sizes, bytes});
  }
  map.require_whole();
  file.map_ = map;
  return file;
}

size_t SafetensorsFile::verify() const {
  // Lost bytes change the checksum too, so the loss is reported first.
  const auto corrupt = [this](const std::string& reason) {
    map_.require_whole();
    return corrupt_file(path_, reason);
  };
  const auto& stored = header_.metadata;
  auto header_hash = stored.find(std::string(kHeaderHash));
  if (header_hash != stored.end() && header_hash->second != hash_text(safetensors_header_hash(header_, kHeaderHash))) {
    throw corrupt("its header does not have the checksum that was written with it");
  }
  size_t verified = 0;
  for (auto entry = stored.lower_bound(std::string(kHashPrefix)); entry != stored.end(); ++entry) {
    const auto& [key, hash] = *entry;
    if (!key.starts_with(kHashPrefix)) break;
    if (key == kHeaderHash) continue;
    std::string name = key.substr(kHashPrefix.size());
    auto tensor = tensors_.find(name);
    if (tensor == tensors_.end()) {
      throw corrupt(fmt::format("it has a checksum for the tensor {}, which it does not hold", in_quotes(name)));
    }
    ContentHasher hasher;
    MappedFile::for_each_piece(tensor->second.bytes, [&](std::span<const std::byte> piece) { hasher.update(piece); });
    if (hash != hash_text(hasher.digest())) {
      throw corrupt(
          fmt::format("the bytes of the tensor {} do not have the checksum that was written with "
                      "them",
                      in_quotes(name)));
    }
    ++verified;
  }
  map_.require_whole();
  return verified;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorDeclaration>& tensors,
                                     std::map<std::string, std::string> metadata)
    : file_(path) {
  header_.metadata = std::move(metadata);
  auto reserved = header_.metadata.lower_bound(std::string(kHashPrefix));
  check(reserved == header_.metadata.end() || !reserved->first.starts_with(kHashPrefix),
        "SafetensorsWriter: metadata keys that start with hash: are the writer's own");
  std::set<std::string_view> names;
  int64_t end = 0;
  for (const TensorDeclaration& tensor : tensors) {
    check(tensor.name != "__metadata__" && names.insert(tensor.name).second,
          "SafetensorsWriter: a tensor's name is reserved or declared twice: " + tensor.name);
    if (safetensors_dtype(tensor.dtype).empty()) {
      throw UserError(fmt::format("cannot write {}: the tensor {} is {}, which safetensors files cannot hold",
                                  path.string(), in_quotes(tensor.name), name_of(tensor.dtype)),
                      UserError::Kind::failure);
    }
    int64_t begin = end;
    std::optional<int64_t> bytes = safetensors_bytes(tensor.dtype, tensor.sizes);
    check(bytes && !__builtin_add_overflow(begin, *bytes, &end),
          "SafetensorsWriter: sizes are negative or overflow: " + tensor.name);
    header_.tensors.push_back({tensor.name, tensor.dtype, tensor.sizes, begin, end});
    hashes_.push_back(tensor.hash);
    if (tensor.hash) header_.metadata[std::string(kHashPrefix) + tensor.name] = hash_text(*tensor.hash);
  }
  header_.metadata[std::string(kHeaderHash)] = hash_text(safetensors_header_hash(header_, kHeaderHash));
  file_.write(format_safetensors_header(header_, path.string()));
}

void SafetensorsWriter::skip_finished() {
  while (current_ < header_.tensors.size()) {
    const SafetensorsEntry& entry = header_.tensors[current_];
    if (written_ < entry.end - entry.begin) return;
    check(!hashes_[current_] || *hashes_[current_] == hasher_.digest(),
          "SafetensorsWriter: the bytes written are not those that were hashed: " + entry.name);
    ++current_;
    written_ = 0;
    hasher_.reset();
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // a tensor without elements has no turn
  skip_finished();
  check(current_ < header_.tensors.size() && header_.tensors[current_].name == name,
        "SafetensorsWriter: not the turn of " + std::string(name));
  const SafetensorsEntry& entry = header_.tensors[current_];
  check(bytes.size() <= static_cast<size_t>(entry.end - entry.begin - written_),
        "SafetensorsWriter: more bytes than declared for " + entry.name);
  file_.write(bytes);
  if (hashes_[current_]) hasher_.update(bytes);
  written_ += static_cast<int64_t>(bytes.size());
  skip_finished();
}

void SafetensorsWriter::commit() {
  skip_finished();
  if (current_ < header_.tensors.size()) {
    throw InternalError("SafetensorsWriter: bytes are missing: " + header_.tensors[current_].name);
  }
  file_.commit();
}

}  // namespace plimsoll
