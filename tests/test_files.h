// Declares files for tests: a folder for the test, text in and out, and small rank files.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "refusals.h"

namespace plimsoll {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plimsoll-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A folder that is the user's cache (XDG_CACHE_HOME) while it exists.
class CacheFolder : public TempFolder {
 public:
  CacheFolder() {
    if (const char* before = ::getenv("XDG_CACHE_HOME")) before_ = before;
    ::setenv("XDG_CACHE_HOME", path().c_str(), 1);
  }
  ~CacheFolder() { before_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before_.c_str(), 1); }

 private:
  std::string before_;
};

inline std::filesystem::path put_file(const std::filesystem::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc).write(text.data(), std::ssize(text));
  return file;
}

inline std::string get_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::string base64(std::string_view bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : alphabet[bits >> (18 - 6 * j) & 63];
  }
  return text;
}

/// Writes a rank file of the 256 single bytes (rank = byte), then `merged` in this order.
inline std::string rank_file(const std::vector<std::string>& merged) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    text += base64({&c, 1}) + " " + std::to_string(byte) + "\n";
  }
  for (size_t i = 0; i < merged.size(); ++i) text += base64(merged[i]) + " " + std::to_string(256 + i) + "\n";
  return text;
}

}  // namespace plimsoll
