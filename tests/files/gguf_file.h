// Declares GGUF files for tests, written byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

/// A writer that collects entries and tensors; text() is the file.
class GgufText {
 public:
  template <typename Number>
  static std::string bytes(Number number) {
    std::string text(sizeof number, '\0');
    std::memcpy(text.data(), &number, sizeof number);
    return text;
  }
  static std::string string(std::string_view text) { return bytes<uint64_t>(text.size()) + std::string(text); }

  /// `type` has the format's number (4: uint32, 6: float32, 8: string).
  GgufText& entry(std::string_view key, uint32_t type, const std::string& value) {
    entries_ += string(key) + bytes(type) + value;
    ++entry_count_;
    return *this;
  }
  GgufText& whole(std::string_view key, uint32_t value) { return entry(key, 4, bytes(value)); }
  GgufText& number(std::string_view key, float value) { return entry(key, 6, bytes(value)); }
  GgufText& word(std::string_view key, std::string_view value) { return entry(key, 8, string(value)); }
  GgufText& words(std::string_view key, const std::vector<std::string>& values) {
    std::string all = bytes<uint32_t>(8) + bytes<uint64_t>(values.size());
    for (const std::string& value : values) all += string(value);
    return entry(key, 9, all);
  }

  /// `sizes` are row major; `type` has ggml's number (0: float32).
  GgufText& tensor(std::string_view name, const std::vector<int64_t>& sizes, uint32_t type, std::string data) {
    tensors_ += string(name) + bytes<uint32_t>(static_cast<uint32_t>(sizes.size()));
    for (size_t i = sizes.size(); i-- > 0;) tensors_ += bytes<uint64_t>(static_cast<uint64_t>(sizes[i]));
    tensors_ += bytes(type) + bytes<uint64_t>(data_.size());
    ++tensor_count_;
    data_ += data;
    data_.resize((data_.size() + 31) / 32 * 32);
    return *this;
  }

  std::string text(uint32_t version = 3) const {
    std::string all = "GGUF" + bytes(version) + bytes<uint64_t>(tensor_count_) + bytes<uint64_t>(entry_count_);
    all += entries_ + tensors_;
    all.resize((all.size() + 31) / 32 * 32);
    return all + data_;
  }

 private:
  std::string entries_, tensors_, data_;
  uint64_t entry_count_ = 0, tensor_count_ = 0;
};

}  // namespace plimsoll
