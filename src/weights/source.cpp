#include "weights/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors.h"
#include "weights/gguf_source.h"

namespace plimsoll::weights {
namespace {

constexpr int64_t kMaxIndexBytes = 64 * MiB;
constexpr size_t kMaxShards = 4096;
constexpr const char *kSingle = "model.safetensors", *kIndex = "model.safetensors.index.json",
                     *kAdapter = "adapter_config.json";  // PEFT's

class SafetensorsSource : public Source {
 public:
  explicit SafetensorsSource(const std::filesystem::path& file) {
    files_.push_back(open(file));
    for (const auto& [name, stored] : files_.back().tensors()) add(name, stored);
  }

  /// Opens the shards that an index lists.
  SafetensorsSource(const std::filesystem::path& folder, const std::filesystem::path& index) {
    const nlohmann::json json = read_json_file(index, kMaxIndexBytes);
    const auto map = json.find("weight_map");
    if (map == json.end() || !map->is_object())
      refuse(index, "has no weight_map, an object of tensors and their files");
    std::map<std::string, std::set<std::string>> files;  // file, and the tensors that it should hold
    for (const auto& [name, file] : map->items()) {
      if (!file.is_string()) refuse(index, fmt::format("does not name a file for {}", in_quotes(name)));
      files[file.get<std::string>()].insert(name);
    }
    if (files.size() > kMaxShards)
      refuse(index, fmt::format("names {} files; at most {} are allowed", files.size(), kMaxShards));
    // All names are checked before the first file is opened.
    for (const auto& [file, names] : files) require_plain_name(index, file);
    for (const auto& [file, names] : files) {
      std::error_code error;
      if (!std::filesystem::exists(folder / file, error))
        refuse(index, fmt::format("names the file {}, which is not in its folder", in_quotes(file)));
      files_.push_back(open(folder / file));
      for (const auto& [name, stored] : files_.back().tensors()) {
        if (!names.contains(name))
          throw corrupt_file(
              (folder / file).string(),
              fmt::format("it holds the tensor {}, which the index does not place there", in_quotes(name)));
        add(name, stored);
      }
      for (const std::string& name : names)
        if (!stored_.contains(name))
          refuse(index,
                 fmt::format("places the tensor {} in {}, which does not hold it", in_quotes(name), in_quotes(file)));
    }
  }

  std::span<const std::byte> rows(const std::string& name, int64_t begin, int64_t end,
                                  std::vector<std::byte>&) const override {
    const StoredTensor& tensor = stored_.at(name).tensor;
    const size_t count = tensor.sizes.empty() ? 1 : static_cast<size_t>(tensor.sizes[0]);
    const size_t row = count == 0 ? 0 : tensor.bytes.size() / count;
    return tensor.bytes.subspan(static_cast<size_t>(begin) * row, static_cast<size_t>(end - begin) * row);
  }

  void release_pages(const std::string& name) const override {
    MappedFile::release_pages(stored_.at(name).tensor.bytes);
  }
  void require_whole(const std::string& name) const override { files_[stored_.at(name).file].require_whole(); }

 private:
  struct Stored {
    StoredTensor tensor;
    size_t file;  // index into files_
  };

  [[noreturn]] static void refuse(const std::filesystem::path& index, const std::string& what) {
    throw UserError(fmt::format("{} {}; nothing was loaded", index.string(), what), UserError::Kind::failure);
  }

  /// Throws UserError unless the file is in the index's own folder: no path may leave it.
  static void require_plain_name(const std::filesystem::path& index, const std::string& name) {
    const std::filesystem::path path(name);
    if (name.empty() || name.find('\0') != std::string::npos || name.find('\\') != std::string::npos ||
        path.has_parent_path() || path.is_absolute() || name == "." || name == ".." || !name.ends_with(".safetensors"))
      refuse(index, fmt::format("names the file {}; it must be a .safetensors file of the same folder, without a path",
                                in_quotes(name)));
  }

  static SafetensorsFile open(const std::filesystem::path& path) {
    SafetensorsFile file = SafetensorsFile::open(path);
    file.verify();
    return file;
  }

  void add(const std::string& name, const StoredTensor& stored) {
    stored_.emplace(name, Stored{stored, files_.size() - 1});
    tensors_.emplace(name, Tensor{stored.sizes, stored.dtype});
  }

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Stored> stored_;
};

/// Returns the names of the folder's .safetensors and .gguf files, sorted.
std::vector<std::string> files_of_weights(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error))
    if (const auto ending = entries->path().extension(); ending == ".safetensors" || ending == ".gguf")
      names.push_back(entries->path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

bool is_gguf(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // to open a pipe would wait for its writer
  char magic[4] = {};
  std::ifstream stream(path, std::ios::binary);
  return stream.read(magic, sizeof magic) && std::memcmp(magic, "GGUF", sizeof magic) == 0;
}

std::unique_ptr<Source> open_source(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    if (is_gguf(path)) return open_gguf_source(path);
    return std::make_unique<SafetensorsSource>(path);
  }
  if (std::filesystem::exists(path / kAdapter, error))
    throw UserError(fmt::format("{} has {}: the weights of an adapter are added to those of the model, which is not "
                                "done here; merge it (merge_and_unload of PEFT), or remove it",
                                path.string(), kAdapter),
                    UserError::Kind::failure);
  if (std::filesystem::exists(path / kSingle, error)) return std::make_unique<SafetensorsSource>(path / kSingle);
  if (std::filesystem::exists(path / kIndex, error)) return std::make_unique<SafetensorsSource>(path, path / kIndex);
  const std::vector<std::string> others = files_of_weights(path);
  throw UserError(fmt::format("{} has neither {} nor {}{}{}", path.string(), kSingle, kIndex,
                              std::filesystem::exists(path / "pytorch_model.bin", error) ||
                                      std::filesystem::exists(path / "pytorch_model.bin.index.json", error)
                                  ? "; its pytorch_model.bin is a pickle, which can run programs: save the model anew "
                                    "with safe_serialization=True"
                                  : "",
                              others.empty() ? "" : "; to read one of its files, name it: " + few_names(others)));
}

std::vector<std::string> notes_on_unread_weights(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return {};
  const bool single = std::filesystem::exists(path / kSingle, error);
  std::set<std::string> read = {kSingle};
  if (!single) {
    if (!std::filesystem::exists(path / kIndex, error)) return {};
    try {
      const nlohmann::json json = read_json_file(path / kIndex, kMaxIndexBytes);
      const nlohmann::json map = json.value("weight_map", nlohmann::json::object());
      for (const auto& [name, file] : map.items())
        if (file.is_string()) read.insert(file.get<std::string>());
    } catch (const std::exception&) {
      return {};  // open_source() says what is wrong with it
    }
  }
  std::vector<std::string> unread = files_of_weights(path);
  std::erase_if(unread, [&](const std::string& each) { return read.contains(each); });
  if (unread.empty()) return {};
  return {fmt::format("{}: the weights are those of {}; these files are not read: {}", path.string(),
                      single ? kSingle : kIndex, few_names(unread))};
}

}  // namespace plimsoll::weights
