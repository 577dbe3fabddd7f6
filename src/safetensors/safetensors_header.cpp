#include "safetensors/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "base/text.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, DType>, 10> kDTypes = {{{"F64", DType::float64},
                                                                         {"F32", DType::float32},
                                                                         {"F16", DType::float16},
                                                                         {"BF16", DType::bfloat16},
                                                                         {"I64", DType::int64},
                                                                         {"I32", DType::int32},
                                                                         {"I16", DType::int16},
                                                                         {"I8", DType::int8},
                                                                         {"U8", DType::uint8},
                                                                         {"BOOL", DType::boolean}}};
constexpr uint64_t kMaxInt64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

/// A reader of the JSON event by event, without a tree. A tree would take many times the header's bytes and nest as
/// deep as the file requests. It would also silently keep the last of two equal names.
class HeaderReader : public json::json_sax_t {
 public:
  HeaderReader(SafetensorsHeader& header, const std::string& file) : header_(header), file_(file) {}

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(json::number_integer_t) override { unexpected("a negative number"); }
  bool number_float(json::number_float_t, const std::string&) override { unexpected("a number that is no integer"); }
  bool binary(json::binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(json::number_unsigned_t value) override {
    if (where_ != Where::array) unexpected("a number");
    if (value > kMaxInt64) fail("a number does not fit into 63 bits");
    if (key_ == "shape") {
      if (entry_.sizes.size() == kMaxSafetensorsDimensions) fail("more than 64 dimensions");
      entry_.sizes.push_back(static_cast<int64_t>(value));
    } else {
      if (offsets_.size() == 2) fail("more than two data offsets");
      offsets_.push_back(static_cast<int64_t>(value));
    }
    return true;
  }

  bool string(std::string& text) override {
    if (where_ == Where::metadata) {
      header_.metadata[key_] = std::move(text);
    } else if (where_ == Where::tensor && key_ == "dtype") {
      const auto* found = std::ranges::find(kDTypes, std::string_view(text), &decltype(kDTypes)::value_type::first);
      if (found == kDTypes.end()) {
        fail(
            fmt::format("unknown dtype {} (known: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL)", in_quotes(text)));
      }
      entry_.dtype = found->second;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(size_t) override {
    if (where_ == Where::outside) {
      where_ = Where::top;
    } else if (where_ == Where::top) {
      where_ = name_ == "__metadata__" ? Where::metadata : Where::tensor;
      entry_ = {};
      entry_.name = name_;
      offsets_.clear();
      keys_.clear();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& text) override {
    if (where_ == Where::top) {
      name_ = std::move(text);
      key_.clear();
      if (!names_.insert(name_).second) fail("the name comes twice");
      return true;
    }
    key_ = std::move(text);
    if (where_ == Where::tensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      fail(fmt::format("unknown key {}", in_quotes(key_)));
    }
    if (!keys_.insert(key_).second) fail(fmt::format("the key {} comes twice", in_quotes(key_)));
    return true;
  }

  bool start_array(size_t) override {
    if (where_ != Where::tensor || key_ == "dtype") unexpected("an array");
    where_ = Where::array;
    return true;
  }

  bool end_array() override {
    where_ = Where::tensor;
    return true;
  }

  bool end_object() override {
    if (where_ == Where::tensor) finish_tensor();
    where_ = where_ == Where::top ? Where::outside : Where::top;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    throw corrupt_file(file_, fmt::format("its header is not valid JSON at byte {}", position));
  }

 private:
  enum class Where : uint8_t { outside, top, metadata, tensor, array };

  [[noreturn]] void fail(std::string_view reason) const {
    throw corrupt_file(file_, fmt::format("in its header, {}: {}", in_quotes(name_), reason));
  }
  [[noreturn]] void unexpected(std::string_view what) const {
    fail(key_.empty() ? fmt::format("{} is not allowed here", what)
                      : fmt::format("{} is not allowed under {}", what, in_quotes(key_)));
  }

  void finish_tensor() {
    if (keys_.size() != 3) fail("dtype, shape and data_offsets are needed");
    if (offsets_.size() != 2) fail("two data offsets are needed");
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    if (entry_.begin > entry_.end) fail("its data ends before it begins");
    std::optional<int64_t> bytes = safetensors_bytes(entry_.dtype, entry_.sizes);
    if (!bytes) fail("its shape overflows");
    if (*bytes != entry_.end - entry_.begin) {
      fail(fmt::format("its shape asks for {} bytes, its data offsets hold {}", *bytes, entry_.end - entry_.begin));
    }
    header_.tensors.push_back(std::move(entry_));
  }

  SafetensorsHeader& header_;
  const std::string& file_;
  Where where_ = Where::outside;
  std::set<std::string> names_;  ///< names of the top level
  std::set<std::string> keys_;   ///< keys of the object being read
  std::string name_, key_;
  SafetensorsEntry entry_;
  std::vector<int64_t> offsets_;
};

void append_number(std::string& out, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(number >> shift));
}

void append_text(std::string& out, std::string_view text) {
  append_number(out, text.size());
  out.append(text);
}

}  // namespace

UserError corrupt_file(const std::string& file, std::string_view reason) {
  return UserError(without_controls(fmt::format("{} is corrupt: {}; nothing was loaded from it", file, reason)),
                   UserError::Kind::failure);
}

UserError truncated_file(const std::string& file, std::string_view reason) {
  return UserError(without_controls(fmt::format("{} is truncated: {}; nothing was loaded from it", file, reason)),
                   UserError::Kind::failure);
}

std::string_view safetensors_dtype(DType dtype) {
  const auto* found = std::ranges::find(kDTypes, dtype, &decltype(kDTypes)::value_type::second);
  return found == kDTypes.end() ? std::string_view() : found->first;
}

std::optional<int64_t> safetensors_bytes(DType dtype, const std::vector<int64_t>& sizes) {
  // A size of 0 counts as 1 at first: strides are computed so, and must not overflow either.
  int64_t bytes = element_bytes(dtype);
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  return std::ranges::find(sizes, 0) == sizes.end() ? bytes : 0;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes, const std::string& file) {
  if (text.empty() || text.front() != '{') throw corrupt_file(file, "its header does not start with '{'");
  SafetensorsHeader header;
  HeaderReader reader(header, file);
  json::sax_parse(text, &reader);

  std::ranges::sort(header.tensors, {}, [](const SafetensorsEntry& entry) {
    return std::tuple(entry.begin, entry.end, std::string_view(entry.name));
  });
  int64_t end = 0;
  for (const SafetensorsEntry& entry : header.tensors) {
    if (entry.begin != end) {
      throw corrupt_file(file, fmt::format("the data of {} starts at byte {}, expected {}: {}", in_quotes(entry.name),
                                           entry.begin, end, entry.begin < end ? "tensors overlap" : "there is a gap"));
    }
    end = entry.end;
  }
  if (end > data_bytes) {
    throw truncated_file(file, fmt::format("its header announces {} bytes of data, it holds {}", end, data_bytes));
  }
  if (end < data_bytes) {
    throw corrupt_file(file, fmt::format("{} bytes follow the last tensor", data_bytes - end));
  }
  return header;
}

std::string format_safetensors_header(const SafetensorsHeader& header, const std::string& file) {
  std::string text = "{";
  try {
    if (!header.metadata.empty()) text += "\"__metadata__\":" + json(header.metadata).dump();
    for (const SafetensorsEntry& entry : header.tensors) {
      if (text.size() > 1) text += ',';
      text += fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", json(entry.name).dump(),
                          safetensors_dtype(entry.dtype), json(entry.sizes).dump(), entry.begin, entry.end);
    }
  } catch (const json::exception&) {
    throw UserError(fmt::format("cannot write {}: a tensor's name or the metadata is not UTF-8", file),
                    UserError::Kind::failure);
  }
  text += '}';
  constexpr size_t kLengthBytes = 8;
  size_t padded =
      (kLengthBytes + text.size() + kSafetensorsAlignment - 1) / kSafetensorsAlignment * kSafetensorsAlignment -
      kLengthBytes;
  if (padded > static_cast<size_t>(kMaxSafetensorsHeader)) {
    throw UserError(fmt::format("cannot write {}: its header would take {} bytes, the format allows {}", file, padded,
                                kMaxSafetensorsHeader),
                    UserError::Kind::failure);
  }
  std::string bytes;
  bytes.reserve(kLengthBytes + padded);
  append_number(bytes, padded);
  bytes += text;
  bytes.resize(kLengthBytes + padded, ' ');
  return bytes;
}

uint64_t safetensors_header_hash(const SafetensorsHeader& header, std::string_view except) {
  // Entries are sorted by name: tensors without bytes share their offsets, so the order of the data is not unique.
  std::vector<const SafetensorsEntry*> entries;
  for (const SafetensorsEntry& entry : header.tensors) entries.push_back(&entry);
  std::ranges::sort(entries, {}, &SafetensorsEntry::name);

  std::string bytes;
  append_number(bytes, entries.size());
  for (const SafetensorsEntry* entry : entries) {
    append_text(bytes, entry->name);
    append_text(bytes, safetensors_dtype(entry->dtype));
    append_number(bytes, entry->sizes.size());
    for (int64_t size : entry->sizes) append_number(bytes, static_cast<uint64_t>(size));
    append_number(bytes, static_cast<uint64_t>(entry->begin));
    append_number(bytes, static_cast<uint64_t>(entry->end));
  }
  for (const auto& [key, value] : header.metadata) {
    if (key == except) continue;
    append_text(bytes, key);
    append_text(bytes, value);
  }
  return content_hash(std::as_bytes(std::span(bytes)));
}

}  // namespace plimsoll
