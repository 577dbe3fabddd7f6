// Tests files that another program cuts short while they are read: an error with the file's name, not SIGBUS, and no
// zeros.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cut_files.h"
#include "files/gguf.h"
#include "files/gguf_file.h"
#include "files/npy.h"
#include "files/npy_files.h"
#include "files/npz.h"
#include "files/picture.h"
#include "files/picture_files.h"
#include "rounds.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

/// A file's contents, and a reader that returns its values as text.
struct Reader {
  std::string name, contents;
  std::function<std::string(const std::filesystem::path& file)> read;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string text_of(const Picture& picture) {
  return picture.describe_sizes() + text_of(std::as_bytes(std::span(picture.numbers)));
}

/// Returns the tensors and the words of a GGUF file.
std::string contents_of_gguf(const std::filesystem::path& path) {
  const GgufFile file = GgufFile::open(path);
  std::string all = file.text("a.word").value() + std::to_string(file.integer("a.size").value()) +
                    std::to_string(file.number("a.number").value());
  const std::vector<std::string_view> words = file.texts("a.words").value();
  for (const std::string_view word : words) all += word;
  for (const auto& [name, tensor] : file.tensors()) all += name + text_of(tensor.bytes);
  file.require_whole();
  return all;
}

std::string contents_of_npz(const std::filesystem::path& path) {
  const NpzFile archive(path);
  std::string all;
  for (const std::string& name : archive.names()) all += name + text_of(archive.read(name).bytes);
  return all;
}

/// Returns readers of files with about `count` numbers, none of which is 0.
std::vector<Reader> readers(int64_t count) {
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  const std::vector<float> ones(static_cast<size_t>(count), 1.0F);
  std::vector<uint16_t> noise(static_cast<size_t>(side * side));
  std::mt19937 random(1);
  for (uint16_t& each : noise) each = static_cast<uint16_t>(1 + random() % 255);
  const std::string array = npy<float>("<f4", "(" + std::to_string(count) + ",)", ones);
  const std::string picture = png(static_cast<int>(side), static_cast<int>(side), 8, kPngGray, noise);
  const std::string json = "{\"a\": \"" + std::string(static_cast<size_t>(4 * count), 'x') + "\", \"b\": 7}";
  GgufText gguf;
  gguf.word("a.word", "word").whole("a.size", 7).number("a.number", 0.5F).words("a.words", {"some", "words"});
  gguf.tensor("a", {count}, 0, text_of(std::as_bytes(std::span(ones))));
  return {
      {"npy", array, [](const auto& file) { return text_of(read_npy(file).bytes); }},
      {"npz, stored", zip({{"x.npy", array}, {"y.npy", array}}, false), contents_of_npz},
      {"npz, deflated", zip({{"x.npy", array}, {"y.npy", array}}, true), contents_of_npz},
      {"png", picture, [](const auto& file) { return text_of(read_picture(file)); }},
      {"png, its sides", picture, [](const auto& file) { return std::to_string(validate_picture(file).width); }},
      {"json", json, [](const auto& file) { return read_json_file(file, int64_t{1} << 30).dump(); }},
      {"python's json", json, [](const auto& file) { return read_python_json_file(file, int64_t{1} << 30).dump(); }},
      {"gguf", gguf.text(), contents_of_gguf}};
}

TEST(ShrinkingFiles, AreErrorsAtEveryMoment) {
  const TempFolder folder;
  for (const Reader& reader : readers(5'100)) {
    SCOPED_TRACE(reader.name);
    const auto file = put_file(folder / "a file", reader.contents);
    expect_no_zeros_when_cut<std::string>(file, [&] { return reader.read(file); });
  }
}

TEST(ShrinkingFiles, AreErrorsOrWhole) {
  const TempFolder folder;
  for (const Reader& reader : readers(1 << 18)) {
    SCOPED_TRACE(reader.name);
    const auto file = put_file(folder / "a file", reader.contents);
    expect_no_zeros_when_cut_at_random<std::string>(
        file, [&] { return reader.read(file); }, testing::rounds(10));
  }
}

TEST(ShrinkingFiles, AnArchiveThatIsCutBehindItsDirectory) {
  const TempFolder folder;
  for (const bool deflated : {false, true}) {
    const auto path = put_file(
        folder / "a.npz", zip({{"x.npy", npy<float>("<f4", "(100000,)", std::vector<float>(100'000, 1))}}, deflated));
    const NpzFile archive(path);
    std::filesystem::resize_file(path, 0);
    EXPECT_THAT(user_error_of([&] { archive.read("x"); }), HasSubstr(path.string()));
  }
}

}  // namespace
}  // namespace plimsoll
