#include "files/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/mapped_file.h"
#include "base/text.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are turned to this machine's order");

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr size_t kMaxHeaderLength = size_t{1} << 20;
constexpr size_t kMaxDimensions = 32;  // NumPy's limit until 2.0

struct Known {
  std::string_view code;  // without the byte order character
  NpyType type;
  size_t bytes;
  std::string_view name;
};
constexpr Known kTypes[] = {
    {"b1", NpyType::boolean, 1, "bool"},    {"i1", NpyType::int8, 1, "int8"},
    {"i2", NpyType::int16, 2, "int16"},     {"i4", NpyType::int32, 4, "int32"},
    {"i8", NpyType::int64, 8, "int64"},     {"u1", NpyType::uint8, 1, "uint8"},
    {"u2", NpyType::uint16, 2, "uint16"},   {"u4", NpyType::uint32, 4, "uint32"},
    {"u8", NpyType::uint64, 8, "uint64"},   {"f2", NpyType::float16, 2, "float16"},
    {"f4", NpyType::float32, 4, "float32"}, {"f8", NpyType::float64, 8, "float64"},
};

const Known& known(NpyType type) {
  return *std::ranges::find(kTypes, type, &Known::type);
}

/// Fields of a header: a Python dictionary of three entries.
struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> sizes;
};

/// A parser of "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" and no other Python.
class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  Header read() {
    Header header;
    expect('{');
    while (!taken('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !header.descr)
        header.descr = described();
      else if (key == "fortran_order" && !header.fortran)
        header.fortran = boolean();
      else if (key == "shape" && !header.sizes)
        header.sizes = tuple();
      else
        refuse(fmt::format("has {} in its header, which an array's header has not, or not twice", in_quotes(key)));
      if (!taken(',')) {
        expect('}');
        break;
      }
    }
    blanks();
    if (!rest_.empty()) refuse("has more behind its header's dictionary");
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(fmt::format("{}: {}", name_, what), UserError::Kind::failure);
  }
  void blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  bool taken(char c) {
    blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!taken(c))
      refuse(fmt::format("has a header that is not NumPy's: '{}' is missing before {}", c, in_quotes(rest_)));
  }
  std::string quoted() {
    blanks();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : rest_.npos;
    if (end == rest_.npos) refuse(fmt::format("has a header that is not NumPy's: no text at {}", in_quotes(rest_)));
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::string described() {
    blanks();
    if (rest_.starts_with('['))
      refuse("is an array of records with named fields; save each field as an array of numbers");
    return quoted();
  }
  bool boolean() {
    blanks();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    refuse(fmt::format("has a header with {} where True or False is expected", in_quotes(rest_)));
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!taken(')')) {
      blanks();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 0)
        refuse(fmt::format("says that it has a size of {}; sizes are whole numbers from 0 on", in_quotes(rest_)));
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      if (rest_.starts_with('L')) rest_.remove_prefix(1);  // long numbers as Python 2 wrote them
      sizes.push_back(size);
      if (sizes.size() > kMaxDimensions) refuse(fmt::format("has more than {} dimensions", kMaxDimensions));
      if (!taken(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view rest_;
  const std::string& name_;
};

const Known& type_of(const std::string& descr, bool& swapped, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(fmt::format("{}: {}", name, what), UserError::Kind::failure);
  };
  const char order = descr.empty() ? '\0' : descr.front();
  swapped = order == '>';
  const bool ordered = order == '<' || order == '>' || order == '|' || order == '=';
  const std::string_view code = std::string_view(descr).substr(ordered ? 1 : 0);
  const auto found = std::ranges::find(kTypes, code, &Known::code);
  if (found != std::end(kTypes)) return *found;
  if (code.starts_with('O'))
    refuse("holds Python objects (a pickle), which are not read; save an array of numbers, with rows of one length");
  if (code.starts_with('U') || code.starts_with('S'))
    refuse("holds texts; save numbers, for example the index of each text");
  refuse(
      fmt::format("holds numbers of type {}; bool, int8 to int64, uint8 to uint64, float16, float32 and float64 can "
                  "be read: save array.astype('float32')",
                  in_quotes(descr)));
  return kTypes[0];
}

double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
  return sign * std::ldexp(exponent ? 1024 + fraction : fraction, std::max(exponent, 1) - 25);
}

template <typename Number>
double as_double(const std::byte* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof(Number));
  return static_cast<double>(number);
}

/// Returns elements in C order from elements whose first index is the fastest.
std::vector<std::byte> in_c_order(std::span<const std::byte> from, const std::vector<int64_t>& sizes, size_t element) {
  std::vector<std::byte> to(from.size());
  std::vector<size_t> step(sizes.size()), place(sizes.size(), 0);
  for (size_t i = 0, one = element; i < sizes.size(); ++i) {
    step[i] = one;
    one *= static_cast<size_t>(sizes[i]);
  }
  size_t source = 0;
  for (size_t at = 0; at < to.size(); at += element) {
    std::memcpy(to.data() + at, from.data() + source, element);
    for (size_t i = sizes.size(); i-- > 0;) {
      source += step[i];
      if (++place[i] < static_cast<size_t>(sizes[i])) break;
      source -= step[i] * place[i];
      place[i] = 0;
    }
  }
  return to;
}

}  // namespace

std::string_view name_of(NpyType type) {
  return known(type).name;
}

bool is_floating(NpyType type) {
  return type == NpyType::float16 || type == NpyType::float32 || type == NpyType::float64;
}

int64_t NpyArray::count() const {
  return static_cast<int64_t>(bytes.size() / known(type).bytes);
}

double NpyArray::at(int64_t i) const {
  const size_t size = known(type).bytes, begin = static_cast<size_t>(i) * size;
  check(i >= 0 && begin + size <= bytes.size(), "NpyArray::at: the array does not have this element");
  const std::byte* const place = bytes.data() + begin;
  switch (type) {
    case NpyType::boolean:
      return std::to_integer<int>(*place) != 0 ? 1 : 0;
    case NpyType::uint8:
      return as_double<uint8_t>(place);
    case NpyType::int8:
      return as_double<int8_t>(place);
    case NpyType::int16:
      return as_double<int16_t>(place);
    case NpyType::int32:
      return as_double<int32_t>(place);
    case NpyType::int64:
      return as_double<int64_t>(place);
    case NpyType::uint16:
      return as_double<uint16_t>(place);
    case NpyType::uint32:
      return as_double<uint32_t>(place);
    case NpyType::uint64:
      return as_double<uint64_t>(place);
    case NpyType::float32:
      return as_double<float>(place);
    case NpyType::float64:
      return as_double<double>(place);
    case NpyType::float16:
      break;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, place, sizeof(bits));
  return half(bits);
}

std::vector<float> NpyArray::floats() const {
  std::vector<float> values(static_cast<size_t>(count()));
  if (type == NpyType::float32)
    std::memcpy(values.data(), bytes.data(), bytes.size());
  else
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(at(static_cast<int64_t>(i)));
  return values;
}

std::string NpyArray::describe_sizes() const {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return fmt::format("{} of {}", text.empty() ? "one number" : text, name_of(type));
}

namespace {

/// An array in a file without its elements, and their layout.
struct Described {
  NpyArray array;
  size_t element = 1, begin = 0;
  bool swapped = false, turned = false;
};

Described described(std::span<const std::byte> bytes, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(fmt::format("{}: {}", name, what), UserError::Kind::failure);
  };
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) {
    const std::string_view kind = file_kind(bytes);
    refuse(kind.empty() ? "is not a NumPy array (.npy): it does not begin as one"
                        : fmt::format("is not a NumPy array (.npy); it is {}", kind));
  }
  if (text.size() < 12) refuse("ends inside its header: it is truncated");
  const int version = std::to_integer<int>(bytes[6]);
  if (version < 1 || version > 3)
    refuse(fmt::format("is of version {} of NumPy's format; 1, 2 and 3 can be read", version));
  size_t length = 0;
  const size_t begin = version == 1 ? 10 : 12;
  for (size_t i = begin; i-- > 8;) length = length << 8 | std::to_integer<size_t>(bytes[i]);
  if (length > kMaxHeaderLength)
    refuse(fmt::format("says that its header has {} bytes; at most {} are read", length, kMaxHeaderLength));
  if (length > text.size() - begin) refuse("ends inside its header: it is truncated");
  const Header header = HeaderText(text.substr(begin, length), name).read();
  if (!header.descr || !header.fortran || !header.sizes)
    refuse("has a header without 'descr', 'fortran_order' or 'shape'");

  Described result;
  NpyArray& array = result.array;
  const Known& type = type_of(*header.descr, result.swapped, name);
  array.type = type.type;
  array.sizes = *header.sizes;
  // In floating point, which does not overflow.
  double exact = static_cast<double>(type.bytes);
  for (const int64_t size : array.sizes) exact *= static_cast<double>(size);
  const auto there = static_cast<double>(text.size() - begin - length);
  if (exact != there)
    refuse(fmt::format("says {}, {:.0f} bytes, and has {:.0f}: it is {}", array.describe_sizes(), exact, there,
                       exact > there ? "truncated or damaged" : "damaged, or holds more than an array"));
  result.element = type.bytes;
  result.begin = begin + length;
  result.turned = *header.fortran && array.sizes.size() > 1;
  return result;
}

void reverse_if(bool swapped, std::vector<std::byte>& bytes, size_t element) {
  if (swapped)
    for (auto at = bytes.begin(); at != bytes.end(); at += static_cast<std::ptrdiff_t>(element))
      std::reverse(at, at + static_cast<std::ptrdiff_t>(element));
}

}  // namespace

NpyArray parse_npy(std::span<const std::byte> bytes, const std::string& name) {
  Described found = described(bytes, name);
  const std::span<const std::byte> numbers = bytes.subspan(found.begin);
  if (found.turned)
    found.array.bytes = in_c_order(numbers, found.array.sizes, found.element);
  else
    found.array.bytes.assign(numbers.begin(), numbers.end());
  reverse_if(found.swapped, found.array.bytes, found.element);
  return std::move(found.array);
}

NpyArray parse_npy(std::vector<std::byte>&& bytes, const std::string& name) {
  Described found = described(bytes, name);
  if (found.turned) {
    found.array.bytes = in_c_order(std::span(bytes).subspan(found.begin), found.array.sizes, found.element);
  } else {
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(found.begin));
    found.array.bytes = std::move(bytes);
  }
  reverse_if(found.swapped, found.array.bytes, found.element);
  return std::move(found.array);
}

NpyArray read_npy(const std::filesystem::path& file) {
  const MappedFile mapped = MappedFile::open(file);
  require_data_memory(file.string(), "holds an array", static_cast<double>(mapped.size()));
  NpyArray array =
      parse_npy(std::span<const std::byte>(mapped.data(), static_cast<size_t>(mapped.size())), file.string());
  mapped.require_whole();
  return array;
}

}  // namespace plimsoll
