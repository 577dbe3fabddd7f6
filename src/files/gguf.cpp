#include "files/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors_header.h"

namespace plimsoll {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian and is mapped, not converted");

enum Type : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64, kTypes };
constexpr uint64_t kBytesOf[kTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Far more than any real file has; each entry uses memory.
constexpr uint64_t kMaxTensors = 1 << 17, kMaxEntries = 1 << 16, kMaxDimensions = 4;
constexpr uint64_t kMaxNameLength = 1 << 12, kDefaultAlignment = 32, kMaxAlignment = 1 << 20;

template <typename Number>
Number number_at(std::span<const std::byte> bytes) {
  Number number{};
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

}  // namespace

/// A reader that goes through the file once. Every length is compared with the remaining bytes before it is used.
class GgufReader {
 public:
  explicit GgufReader(GgufFile& file) : file_(file), left_(file.map_.data(), static_cast<size_t>(file.map_.size())) {}

  void read() {
    if (left_.size() < 4 || std::memcmp(left_.data(), "GGUF", 4) != 0) fail("it does not begin with GGUF");
    take(4);
    if (const auto version = number<uint32_t>(); version != 2 && version != 3)
      fail(fmt::format("its version is {}; 2 and 3 can be read", version));
    const auto tensors = number<uint64_t>(), entries = number<uint64_t>();
    if (tensors > kMaxTensors) fail(fmt::format("it announces {} tensors", tensors));
    if (entries > kMaxEntries) fail(fmt::format("it announces {} entries of metadata", entries));
    for (uint64_t i = 0; i < entries; ++i) read_entry();
    std::vector<Announced> announced;
    for (uint64_t i = 0; i < tensors; ++i) announced.push_back(read_tensor());
    place(announced);
  }

 private:
  struct Announced {
    std::string name;
    GgmlType type;
    std::vector<int64_t> sizes;
    uint64_t offset, bytes;
  };

  [[noreturn]] void fail(const std::string& what) const { throw corrupt_file(file_.path_, what); }

  std::span<const std::byte> take(uint64_t bytes) {
    if (bytes > left_.size())
      throw truncated_file(file_.path_,
                           fmt::format("{} bytes were due at byte {}, and {} are left", bytes,
                                       file_.map_.size() - static_cast<int64_t>(left_.size()), left_.size()));
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }
  template <typename Number>
  Number number() {
    return number_at<Number>(take(sizeof(Number)));
  }
  std::string_view text() {
    const auto bytes = take(number<uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string name() {
    const std::string_view read = text();
    if (read.empty() || read.size() > kMaxNameLength) fail(fmt::format("a name has {} bytes", read.size()));
    return std::string(read);
  }

  void read_entry() {
    const std::string key = name();
    GgufFile::Value value;
    value.type = number<uint32_t>();
    if (value.type >= kTypes) fail(fmt::format("{} is of the unknown type {}", in_quotes(key), value.type));
    const std::byte* begin = left_.data();
    if (value.type == Type::string) {
      text();
    } else if (value.type == Type::array) {
      value.element_type = number<uint32_t>();
      value.count = number<uint64_t>();
      // The format allows lists of lists, but no file uses them.
      if (value.element_type >= kTypes || value.element_type == Type::array)
        fail(fmt::format("{} is a list of the type {}", in_quotes(key), value.element_type));
      begin = left_.data();
      const uint64_t each = value.element_type == Type::string ? 8 : kBytesOf[value.element_type];
      if (value.count > left_.size() / each)
        throw truncated_file(file_.path_, fmt::format("{} is a list of {} values, and {} bytes are left",
                                                      in_quotes(key), value.count, left_.size()));
      if (value.element_type == Type::string)
        for (uint64_t i = 0; i < value.count; ++i) text();
      else
        take(value.count * each);
    } else {
      take(kBytesOf[value.type]);
    }
    value.bytes = {begin, left_.data()};
    if (!file_.values_.emplace(key, value).second) fail(fmt::format("it has the key {} twice", in_quotes(key)));
  }

  Announced read_tensor() {
    Announced tensor;
    tensor.name = name();
    const auto fault = [&](const std::string& what) {
      fail(fmt::format("the tensor {} {}", in_quotes(tensor.name), what));
    };
    const auto dimensions = number<uint32_t>();
    if (dimensions == 0 || dimensions > kMaxDimensions) fault(fmt::format("has {} dimensions", dimensions));
    uint64_t elements = 1;
    for (uint32_t i = 0; i < dimensions; ++i) {
      const auto size = number<uint64_t>();
      if (size == 0 || size >= uint64_t{1} << 62 || __builtin_mul_overflow(elements, size, &elements) ||
          elements >= uint64_t{1} << 60)
        fault(fmt::format("has the size {}", size));
      tensor.sizes.insert(tensor.sizes.begin(), static_cast<int64_t>(size));
    }
    const auto type = number<uint32_t>();
    const std::optional<GgmlType> known = ggml_type(type);
    if (!known) fault(fmt::format("is of the type {}; {} can be read", type, ggml_type_names()));
    tensor.type = *known;
    const GgmlBlock block = block_of(tensor.type);
    if (tensor.sizes.back() % block.elements != 0)
      fault(
          fmt::format("has rows of {} numbers, which are no whole blocks of {}", tensor.sizes.back(), block.elements));
    tensor.bytes = elements / static_cast<uint64_t>(block.elements) * static_cast<uint64_t>(block.bytes);
    tensor.offset = number<uint64_t>();
    return tensor;
  }

  void place(std::vector<Announced>& announced) {
    const uint64_t alignment = static_cast<uint64_t>(file_.integer("general.alignment").value_or(kDefaultAlignment));
    if (alignment == 0 || alignment > kMaxAlignment || !std::has_single_bit(alignment))
      fail(fmt::format("its alignment is {}", alignment));
    const uint64_t read = static_cast<uint64_t>(file_.map_.size()) - left_.size();
    const uint64_t begin = (read + alignment - 1) / alignment * alignment;
    const auto size = static_cast<uint64_t>(file_.map_.size());
    const uint64_t room = size > begin ? size - begin : 0;
    std::ranges::sort(announced, {}, &Announced::offset);
    uint64_t end = 0;
    for (Announced& tensor : announced) {
      const std::string quoted = in_quotes(tensor.name);
      if (tensor.offset % alignment != 0 || tensor.offset < end)
        fail(fmt::format("the data of {} begin at byte {}: {}", quoted, tensor.offset,
                         tensor.offset < end ? "tensors overlap" : "not aligned"));
      if (tensor.offset > room || tensor.bytes > room - tensor.offset)
        throw truncated_file(file_.path_, fmt::format("the data of {} end at byte {}, the file's at {}", quoted,
                                                      tensor.offset + tensor.bytes, room));
      end = tensor.offset + tensor.bytes;
      const std::byte* data = file_.map_.data() + begin + tensor.offset;
      if (!file_.tensors_.emplace(tensor.name, GgufTensor{tensor.type, tensor.sizes, {data, tensor.bytes}}).second)
        fail(fmt::format("it has the tensor {} twice", quoted));
    }
  }

  GgufFile& file_;
  std::span<const std::byte> left_;
};

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile file;
  file.path_ = path.string();
  file.map_ = MappedFile::open(path);
  GgufReader(file).read();
  file.require_whole();
  return file;
}

const GgufFile::Value* GgufFile::find(const std::string& key, uint32_t type) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  if (found->second.type != type) throw corrupt_file(path_, fmt::format("{} is of another type", in_quotes(key)));
  return &found->second;
}

std::optional<std::string> GgufFile::text(const std::string& key) const {
  const Value* value = find(key, Type::string);
  if (!value) return std::nullopt;
  std::string text(reinterpret_cast<const char*>(value->bytes.data()) + 8, value->bytes.size() - 8);
  require_whole();
  return text;
}

std::optional<int64_t> GgufFile::integer(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  const std::span<const std::byte> bytes = found->second.bytes;
  const auto whole = [&]() -> std::optional<int64_t> {
    switch (found->second.type) {
      case Type::u8:
        return number_at<uint8_t>(bytes);
      case Type::i8:
        return number_at<int8_t>(bytes);
      case Type::u16:
        return number_at<uint16_t>(bytes);
      case Type::i16:
        return number_at<int16_t>(bytes);
      case Type::u32:
        return number_at<uint32_t>(bytes);
      case Type::i32:
        return number_at<int32_t>(bytes);
      case Type::i64:
        return number_at<int64_t>(bytes);
      case Type::u64:
        if (number_at<uint64_t>(bytes) >> 63 != 0) return std::nullopt;
        return static_cast<int64_t>(number_at<uint64_t>(bytes));
      default:
        return std::nullopt;
    }
  }();
  require_whole();
  if (!whole) throw corrupt_file(path_, fmt::format("{} is no whole number below 2^63", in_quotes(key)));
  return whole;
}

std::optional<double> GgufFile::number(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  double number = NAN;
  if (found->second.type == Type::f32) number = static_cast<double>(number_at<float>(found->second.bytes));
  if (found->second.type == Type::f64) number = number_at<double>(found->second.bytes);
  require_whole();
  if (!std::isfinite(number)) throw corrupt_file(path_, fmt::format("{} is no finite number", in_quotes(key)));
  return number;
}

std::optional<std::vector<std::string_view>> GgufFile::texts(const std::string& key) const {
  const Value* value = find(key, Type::array);
  if (!value) return std::nullopt;
  if (value->element_type != Type::string)
    throw corrupt_file(path_, fmt::format("{} is no list of strings", in_quotes(key)));
  std::vector<std::string_view> texts;
  texts.reserve(value->count);  // each takes at least 8 bytes of the file
  std::span<const std::byte> left = value->bytes;
  for (uint64_t i = 0; i < value->count; ++i) {
    const uint64_t size = left.size() < 8 ? 0 : number_at<uint64_t>(left);
    if (left.size() < 8 || size > left.size() - 8)  // open() has read other sizes
      throw corrupt_file(path_, fmt::format("{} changed while it was read", in_quotes(key)));
    texts.emplace_back(reinterpret_cast<const char*>(left.data()) + 8, size);
    left = left.subspan(8 + size);
  }
  require_whole();
  return texts;
}

std::vector<std::string> GgufFile::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : values_) all.push_back(key);
  return all;
}

std::string GgufFile::shown(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return "";
  const Value& value = found->second;
  switch (value.type) {
    case Type::string:
      return *text(key);
    case Type::array:
      return fmt::format("a list of {}", value.count);
    case Type::boolean:
      return number_at<uint8_t>(value.bytes) != 0 ? "true" : "false";
    case Type::f32:
      return fmt::format("{}", number_at<float>(value.bytes));
    case Type::f64:
      return fmt::format("{}", number_at<double>(value.bytes));
    case Type::u64:
      return fmt::format("{}", number_at<uint64_t>(value.bytes));
    default:
      return fmt::format("{}", *integer(key));
  }
}

namespace {

struct Known {
  GgmlType type;
  const char* name;
  GgmlBlock block;
};
constexpr std::array<Known, 7> kKnown = {{{GgmlType::f32, "F32", {1, 4}},
                                          {GgmlType::f16, "F16", {1, 2}},
                                          {GgmlType::bf16, "BF16", {1, 2}},
                                          {GgmlType::q8_0, "Q8_0", {32, 34}},
                                          {GgmlType::q4_0, "Q4_0", {32, 18}},
                                          {GgmlType::q4_1, "Q4_1", {32, 20}},
                                          {GgmlType::q6_k, "Q6_K", {256, 210}}}};

float half_at(const uint8_t* from) {
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  const uint32_t magnitude = uint32_t{bits & 0x7fffu} << 13, sign = uint32_t{bits & 0x8000u} << 16;
  // Multiplying by 2^112 moves the exponent into float's range and also converts subnormal halves correctly.
  const float finite = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t value = magnitude >= (31u << 23) ? magnitude + (224u << 23) : std::bit_cast<uint32_t>(finite);
  return std::bit_cast<float>(value | sign);
}

// Layouts: ggml-common.h. A byte has element i in its low half and element i + 16 in its high half.

void q8_0(const uint8_t* from, float* to) {
  const float scale = half_at(from);
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(static_cast<int8_t>(from[2 + i]));
}

void q4_0(const uint8_t* from, float* to) {
  const float scale = half_at(from);
  for (int i = 0; i < 16; ++i) {
    to[i] = scale * static_cast<float>((from[2 + i] & 15) - 8);
    to[i + 16] = scale * static_cast<float>((from[2 + i] >> 4) - 8);
  }
}

void q4_1(const uint8_t* from, float* to) {
  const float scale = half_at(from), least = half_at(from + 2);
  for (int i = 0; i < 16; ++i) {
    to[i] = scale * static_cast<float>(from[4 + i] & 15) + least;
    to[i + 16] = scale * static_cast<float>(from[4 + i] >> 4) + least;
  }
}

// Two halves of 128 elements: 64 bytes of low four bits, 32 of high two, 8 scales of 16 elements each.
void q6_k(const uint8_t* from, float* to) {
  const float scale = half_at(from + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t *low = from + 64 * half, *high = from + 128 + 32 * half, *scales = from + 192 + 8 * half;
    for (int i = 0; i < 32; ++i)
      for (int quarter = 0; quarter < 4; ++quarter) {
        const int four = quarter < 2 ? low[i + 32 * quarter] & 15 : low[i + 32 * (quarter - 2)] >> 4;
        const int six = (four | (((high[i] >> (2 * quarter)) & 3) << 4)) - 32;
        const auto of_block = static_cast<float>(static_cast<int8_t>(scales[i / 16 + 2 * quarter]));
        to[128 * half + 32 * quarter + i] = scale * of_block * static_cast<float>(six);
      }
  }
}

}  // namespace

std::optional<GgmlType> ggml_type(uint32_t value) {
  for (const Known& each : kKnown)
    if (static_cast<uint32_t>(each.type) == value) return each.type;
  return std::nullopt;
}

std::string ggml_type_names() {
  std::string names;
  for (const Known& each : kKnown) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

GgmlBlock block_of(GgmlType type) {
  for (const Known& each : kKnown)
    if (each.type == type) return each.block;
  throw InternalError("block_of: no such type");
}

bool is_quantized(GgmlType type) {
  return block_of(type).elements > 1;
}

void dequantize_blocks(GgmlType type, std::span<const std::byte> blocks, std::span<float> to) {
  const GgmlBlock block = block_of(type);
  const size_t count = blocks.size() / static_cast<size_t>(block.bytes);
  check(is_quantized(type) && count * static_cast<size_t>(block.bytes) == blocks.size() &&
            count * static_cast<size_t>(block.elements) == to.size(),
        "take_apart: whole blocks of a quantized type, and room for their numbers");
  const auto* from = reinterpret_cast<const uint8_t*>(blocks.data());
  void (*const each)(const uint8_t*, float*) = type == GgmlType::q8_0   ? q8_0
                                               : type == GgmlType::q4_0 ? q4_0
                                               : type == GgmlType::q4_1 ? q4_1
                                                                        : q6_k;
  for (size_t i = 0; i < count; ++i)
    each(from + i * static_cast<size_t>(block.bytes), to.data() + i * static_cast<size_t>(block.elements));
}

}  // namespace plimsoll
