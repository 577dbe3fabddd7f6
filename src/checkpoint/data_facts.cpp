#include "checkpoint/data_facts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "base/file_error.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/text.h"

namespace plimsoll {
namespace {

constexpr size_t kFilesShown = 8;   // of each key
constexpr size_t kLinesShown = 24;  // of all: a damaged file may have any number of keys

std::string value_text(const std::string& value) {
  return value.empty() ? "(none)" : one_line(value);
}

/// Returns "KEY was A and is B". Of long values that begin alike, the part around the first difference is shown.
std::string changed(const std::string& key, const std::string& was, const std::string& is) {
  if (one_line(was) != one_line(is)) return fmt::format("{} was {} and is {}", key, value_text(was), value_text(is));
  constexpr size_t context = 20;
  const auto differ = std::ranges::mismatch(was, is).in1 - was.begin();
  size_t begin = static_cast<size_t>(differ) - std::min(static_cast<size_t>(differ), context);
  while (begin > 0 && (static_cast<unsigned char>(was[begin]) & 0xC0) == 0x80) --begin;  // between UTF-8 characters
  return fmt::format("{} was ...{} and is ...{}", key, one_line(std::string_view(was).substr(begin)),
                     one_line(std::string_view(is).substr(begin)));
}

std::string what_it_has(const DataFileFact& file) {
  return identity_text(file.identity);
}

bool is_same(const DataFileFact& a, const DataFileFact& b) {
  return a.identity == b.identity && (!(a.is_name_data || b.is_name_data) || a.name == b.name);
}

std::string names_text(const std::vector<DataFileFact>& files) {
  std::vector<std::string> names;
  for (const DataFileFact& each : files) names.push_back(each.name);
  return few_names(names);
}

/// Removes what both have, as often as both have it.
void remove_common(std::vector<DataFileFact>& a, std::vector<DataFileFact>& b) {
  std::erase_if(a, [&](const DataFileFact& file) {
    const auto found = std::ranges::find_if(b, [&](const DataFileFact& other) { return is_same(file, other); });
    if (found == b.end()) return false;
    b.erase(found);
    return true;
  });
}

/// Returns the differences between the files of one key.
std::vector<std::string> file_differences(const std::string& key, const std::vector<DataFileFact>& stored,
                                          const std::vector<DataFileFact>& ours) {
  if (std::ranges::equal(stored, ours, is_same)) return {};
  std::vector<DataFileFact> gone = stored, fresh = ours;
  remove_common(gone, fresh);
  if (gone.empty() && fresh.empty())
    return {fmt::format("{}: the order was {} and is {}", key, names_text(stored), names_text(ours))};
  std::vector<std::string> found;
  const auto add = [&](const std::string& text) { found.push_back(fmt::format("{}: {}", key, text)); };
  std::erase_if(gone, [&](const DataFileFact& file) {
    const auto same = std::ranges::find(fresh, file.name, &DataFileFact::name);
    if (same == fresh.end()) return false;
    add(fmt::format("{} had {}, now has {}", one_line(file.name), what_it_has(file), what_it_has(*same)));
    fresh.erase(same);
    return true;
  });
  if (gone.size() == fresh.size()) {
    for (size_t i = 0; i < gone.size(); ++i)
      add(gone[i].identity == fresh[i].identity
              ? fmt::format("the name {}, which is a caption, is now {}", one_line(gone[i].name),
                            one_line(fresh[i].name))
              : fmt::format("{} with {} is now {} with {}", one_line(gone[i].name), what_it_has(gone[i]),
                            one_line(fresh[i].name), what_it_has(fresh[i])));
  } else {
    for (const DataFileFact& each : gone)
      add(fmt::format("{} with {} is not there now", one_line(each.name), what_it_has(each)));
    for (const DataFileFact& each : fresh)
      add(fmt::format("{} with {} was not there", one_line(each.name), what_it_has(each)));
  }
  if (found.size() > kFilesShown) {
    const size_t more = found.size() - kFilesShown;
    found.resize(kFilesShown);
    add(fmt::format("and {} more file{} differ{}", more, more == 1 ? "" : "s", more == 1 ? "s" : ""));
  }
  return found;
}

std::vector<DataFileFact> files_of(const DataFacts& facts, const std::string& key) {
  std::vector<DataFileFact> files;
  std::ranges::copy_if(facts.files, std::back_inserter(files), [&](const auto& each) { return each.key == key; });
  return files;
}

std::map<std::string, std::string> settings_of(const DataSide& side, bool with_facts) {
  std::map<std::string, std::string> settings;
  for (const auto& [key, value] : side.origin)
    if (is_data_key(key)) settings[key] = value;
  if (with_facts)
    for (const auto& [key, value] : side.facts->settings) settings[key] = value;
  return settings;
}

}  // namespace

nlohmann::ordered_json json_of(const DataFacts& facts) {
  nlohmann::ordered_json json;
  json["files"] = nlohmann::ordered_json::array();
  for (const DataFileFact& each : facts.files) {
    nlohmann::ordered_json file{{"key", each.key},
                                {"name", each.name},
                                {"files", each.identity.files},
                                {"bytes", each.identity.bytes},
                                {"hash", fmt::format("{:016x}", each.identity.hash)}};
    if (each.is_name_data) file["is_name_data"] = true;
    json["files"].push_back(std::move(file));
  }
  json["settings"] = facts.settings;
  return json;
}

DataFacts parse_data_facts(const nlohmann::json& json) {
  DataFacts facts;
  for (const nlohmann::json& file : json.at("files")) {
    DataFileFact each{.key = file.at("key").get<std::string>(),
                      .name = file.at("name").get<std::string>(),
                      .identity = {.files = file.at("files").get<int64_t>(), .bytes = file.at("bytes").get<int64_t>()},
                      .is_name_data = file.value("is_name_data", false)};
    const std::string hash = file.at("hash").get<std::string>();
    const char* const end = hash.data() + hash.size();
    const auto [read, error] = std::from_chars(hash.data(), end, each.identity.hash, 16);
    // Text that is no hash is equal to no file's, so it shows as a difference.
    if (error != std::errc{} || read != end) each.identity.files = -1;
    facts.files.push_back(std::move(each));
  }
  facts.settings = json.at("settings").get<std::map<std::string, std::string>>();
  return facts;
}

bool is_data_key(const std::string& key) {
  return key.starts_with("data.") || key == "seed";
}

std::vector<std::string> data_differences(const DataSide& stored, const DataSide& ours) {
  const bool with_facts = stored.facts && ours.facts;
  auto before = settings_of(stored, with_facts), now = settings_of(ours, with_facts);
  std::vector<std::string> found;
  if (with_facts) {
    std::set<std::string> keys;
    for (const DataFacts* facts : {stored.facts, ours.facts})
      for (const DataFileFact& each : facts->files) keys.insert(each.key);
    for (const std::string& key : keys) {
      // The origin has the names of some files, which may change if the bytes do not.
      before.erase(key);
      now.erase(key);
      const auto lines = file_differences(one_line(key), files_of(*stored.facts, key), files_of(*ours.facts, key));
      found.insert(found.end(), lines.begin(), lines.end());
    }
  }
  std::set<std::string> keys;
  for (const auto* settings : {&before, &now})
    for (const auto& entry : *settings) keys.insert(entry.first);
  for (const std::string& key : keys) {
    const auto was = before.find(key), is = now.find(key);
    if (was == before.end())
      found.push_back(fmt::format("{} was not set and is {}", one_line(key), value_text(is->second)));
    else if (is == now.end())
      found.push_back(fmt::format("{} was {} and is not set", one_line(key), value_text(was->second)));
    else if (was->second != is->second)
      found.push_back(changed(one_line(key), was->second, is->second));
  }
  if (found.size() > kLinesShown) {
    const size_t more = found.size() - kLinesShown;
    found.resize(kLinesShown);
    found.push_back(fmt::format("and {} more", more));
  }
  return found;
}

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
