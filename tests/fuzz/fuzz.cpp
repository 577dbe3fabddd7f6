#include "fuzz.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>

#include "opened_files.h"
#include "plimsoll/error.h"

namespace plimsoll::fuzz {
namespace {

[[noreturn]] void find(const std::string& what) {
  std::fprintf(stderr, "==> find: %s\n", what.c_str());
  std::abort();
}

class Folder {
 public:
  Folder() {
    std::error_code ignored;
    const char* const given = std::getenv("PLIMSOLL_FUZZ_FOLDER");
    const bool memory = ::access("/dev/shm", W_OK) == 0;
    std::string name = given ? given : memory ? "/dev/shm" : std::filesystem::temp_directory_path(ignored).string();
    name += "/plimsoll-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) find("the private folder cannot be made: " + name);
    path_ = std::filesystem::canonical(name);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::set<std::string>& decoys() {
  static std::set<std::string> names;
  return names;
}

void put(const std::filesystem::path& path, std::string_view bytes) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fclose(file) != 0)
    find("cannot write " + path.string());
}

/// The first character of `text` and its bytes; -1 for a byte that begins no UTF-8.
int32_t character(std::string_view text, size_t& bytes) {
  const auto byte = static_cast<unsigned char>(text[0]);
  bytes = byte < 0x80 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 0;
  int32_t code = byte < 0x80 ? byte : byte & (0x7f >> bytes);
  if (bytes == 0 || bytes > text.size()) return bytes = 1, -1;
  for (size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return bytes = 1, -1;
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  }
  // A character written longer than it need be is none.
  constexpr int32_t kFirst[] = {0, 0, 0x80, 0x800, 0x10000};
  return code < kFirst[bytes] ? (bytes = 1, -1) : code;
}

/// Returns the fault of a message; "" if it has none.
std::string problem_of(std::string_view message, const Rules& rules) {
  if (message.empty()) return "the message is empty";
  if (message.size() > rules.longest) return "the message has " + std::to_string(message.size()) + " bytes";
  for (size_t at = 0, bytes = 1; at < message.size(); at += bytes) {
    const int32_t code = character(message.substr(at), bytes);
    const bool acts = (code >= 0 && code < 0x20) || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
                      code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                      (code >= 0x2066 && code <= 0x2069);
    // A terminal that does not read UTF-8 takes such a byte for a C1 control.
    const bool byte_acts = code < 0 && static_cast<unsigned char>(message[at]) < 0xa0;
    if ((acts && !(rules.lines && code == '\n')) || byte_acts)
      return "the message has a control character at byte " + std::to_string(at);
  }
  return "";
}

/// Returns whether the input has the last component of the path that was opened.
bool names(std::string_view input, const std::filesystem::path& opened) {
  // A path in escapes ("\x2f") cannot be looked for.
  return input.find('\\') != std::string_view::npos || input.find(opened.filename().string()) != std::string_view::npos;
}

void check_opened(std::string_view input, const Rules& rules) {
  for (const std::string& each : take_opened_files()) {
    const std::filesystem::path path = std::filesystem::weakly_canonical(each);
    const std::string name = path.lexically_relative(folder()).string();
    const bool inside = !name.empty() && !name.starts_with("..");
    if (inside && !decoys().contains(name)) continue;
    if (!rules.names || !names(input, path))
      find("the reader opened " + path.string() + ", which the input does not name");
  }
}

}  // namespace

const std::filesystem::path& folder() {
  static const Folder folder;
  return folder.path();
}

std::filesystem::path write(const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = folder() / name;
  std::filesystem::create_directories(path.parent_path());
  put(path, bytes);
  decoys().erase(name);
  return path;
}

std::filesystem::path decoy(const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = write(name, bytes);
  decoys().insert(name);
  return path;
}

std::vector<std::string> parts(std::string_view input, size_t count) {
  std::vector<std::string> parts;
  while (parts.size() + 1 < count) {
    const size_t cut = input.find(kCut);
    parts.emplace_back(input.substr(0, cut));
    input = cut == std::string_view::npos ? std::string_view() : input.substr(cut + kCut.size());
  }
  parts.emplace_back(input);
  return parts;
}

bool reads(std::string_view input, const std::function<void()>& work, const Rules& rules) {
  bool read = false;
  watch_opened_files(true);
  try {
    work();
    read = true;
  } catch (const UserError& error) {
    const std::string problem = problem_of(error.what(), rules);
    if (!problem.empty()) find(problem + ": " + error.what());
    static const bool shown = std::getenv("PLIMSOLL_FUZZ_SHOW") != nullptr;
    if (shown) std::fprintf(stderr, "refused: %s\n", error.what());
  } catch (const std::exception& error) {
    find(std::string("another exception than UserError: ") + error.what());
  }
  watch_opened_files(false);
  check_opened(input, rules);
  return read;
}

void require(bool holds, const char* what) {
  if (!holds) find(what);
}

void touch(const void* bytes, size_t size) {
  static volatile uint8_t sum;
  uint8_t all = 0;
  for (size_t i = 0; i < size; ++i) all ^= static_cast<const uint8_t*>(bytes)[i];
  sum = all;
}

}  // namespace plimsoll::fuzz
