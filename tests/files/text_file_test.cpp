#include "files/text_file.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <random>

#include "cut_files.h"
#include "files/file_kind.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kMark = "\xEF\xBB\xBF";

std::filesystem::path put_gzip(const std::filesystem::path& file, const std::string& text) {
  gzFile stream = gzopen(file.c_str(), "wb1");
  gzwrite(stream, text.data(), static_cast<unsigned>(text.size()));
  gzclose(stream);
  return file;
}

/// Returns the text as UTF-16 without a byte order mark, for ASCII.
std::string wide(const std::string& text, bool little_endian) {
  std::string bytes;
  for (const char c : text) (bytes += little_endian ? c : '\0') += little_endian ? '\0' : c;
  return bytes;
}

class TextBytesTest : public ::testing::Test {
 protected:
  std::string read(const std::filesystem::path& file, size_t piece = 1 << 20) {
    TextBytes bytes(file, "data.files: " + file.string());
    form_ = bytes.form();
    std::string text;
    for (size_t got = piece; got == piece;) {
      text.resize(text.size() + piece);
      got = bytes.read(std::span(text).subspan(text.size() - piece));
      text.resize(text.size() - piece + got);
    }
    file_bytes_ = bytes.file_bytes_read();
    note_ = bytes.note();
    return text;
  }
  std::string refusal(const std::string& bytes) {
    return user_error_of([&] { read(put_file(folder_ / "t.txt", bytes)); });
  }
  TempFolder folder_;
  TextForm form_ = TextForm::plain;
  std::string note_;
  int64_t file_bytes_ = 0;
};

TEST_F(TextBytesTest, ReadsPlainMarkedAndPackedText) {
  std::string text;
  for (int i = 0; i < 30000; ++i) text += "a line of text, " + std::to_string(i) + "\n";
  for (const size_t piece : {size_t{7919}, size_t{1} << 16, size_t{1} << 22}) {
    EXPECT_EQ(read(put_file(folder_ / "a", text), piece), text);
    EXPECT_EQ(form_, TextForm::plain);
    EXPECT_EQ(file_bytes_, std::ssize(text));
    EXPECT_EQ(read(put_file(folder_ / "a", kMark + text), piece), text);
    EXPECT_EQ(form_, TextForm::marked);
    EXPECT_EQ(file_bytes_, std::ssize(text) + 3);
    const auto packed = put_gzip(folder_ / "b", text);
    EXPECT_EQ(read(packed, piece), text);
    EXPECT_EQ(form_, TextForm::packed);
    EXPECT_EQ(file_bytes_, static_cast<int64_t>(std::filesystem::file_size(packed)));
    EXPECT_EQ(read(put_gzip(folder_ / "b", kMark + text), piece), text);
    EXPECT_THAT(note_, IsEmpty());
  }
  EXPECT_EQ(read(put_file(folder_ / "c", kMark)), "");
}

TEST_F(TextBytesTest, RefusesOtherKindsAndEncodingsByName) {
  const std::string text = "In the year of the great rain";
  EXPECT_THAT(refusal("\xff\xfe" + wide(text, true)),
              AllOf(HasSubstr("data.files: "), HasSubstr("t.txt is text in UTF-16; allowed: text in UTF-8"),
                    HasSubstr("iconv -f UTF-16 -t UTF-8 t.txt")));
  EXPECT_THAT(refusal("\xfe\xff" + wide(text, false)), HasSubstr("text in UTF-16;"));
  EXPECT_THAT(refusal("\xff\xfe\0\0I\0\0\0"s), HasSubstr("text in UTF-32;"));
  EXPECT_THAT(refusal("\0\0\xfe\xff\0\0\0I"s), HasSubstr("text in UTF-32;"));
  EXPECT_THAT(refusal(wide(text, true)), HasSubstr("iconv -f UTF-16LE"));
  EXPECT_THAT(refusal(wide(text, false)), HasSubstr("iconv -f UTF-16BE"));
  std::string four, reversed;
  for (const char c : text) four += std::string(1, c) + "\0\0\0"s, reversed += "\0\0\0"s + c;
  EXPECT_THAT(refusal(four), HasSubstr("text in UTF-32LE; allowed"));
  EXPECT_THAT(refusal(reversed), HasSubstr("iconv -f UTF-32BE"));
  EXPECT_THAT(refusal("\x1f\x9d\x90 rest"),
              HasSubstr("is a compress file (.Z); allowed: text in UTF-8, plain or packed by gzip; unpack"));
  EXPECT_THAT(refusal("]\0\0\x80\0rest"s), HasSubstr("is an lzma file"));
  EXPECT_THAT(refusal("{\\rtf1\\ansi text}"), HasSubstr("is a document in RTF"));
  EXPECT_THAT(refusal("\x93NUMPY\1\0v\0"s), HasSubstr("is a NumPy array (.npy); allowed: text"));
  EXPECT_THAT(refusal("\x28\xb5\x2f\xfd rest"),
              HasSubstr("is a zstd file; allowed: text in UTF-8, plain or packed by gzip; unpack"));
  EXPECT_THAT(refusal("\xfd"
                      "7zXZ\0rest"s),
              HasSubstr("is an xz file"));
  EXPECT_THAT(refusal("BZh91AY&SY"), HasSubstr("is a bzip2 file"));
  EXPECT_THAT(refusal("PK\3\4 rest"), HasSubstr("is a zip archive"));
  EXPECT_THAT(refusal("PAR1\x15\4"), HasSubstr("is a Parquet table"));
  EXPECT_THAT(refusal("GGUF\3\0\0\0rest"s), HasSubstr("is a GGUF model"));
  EXPECT_THAT(refusal("\x40\0\0\0\0\0\0\0{\"a\":"s), HasSubstr("is a safetensors file"));
  EXPECT_THAT(refusal("\x80\4\x95rest"), HasSubstr("is a Python pickle"));
  EXPECT_THAT(refusal("%PDF-1.7"), HasSubstr("is a PDF document"));
  EXPECT_THAT(user_error_of([&] { read(put_gzip(folder_ / "t.gz", "\x93NUMPY\1\0v\0"s)); }),
              HasSubstr("t.gz is a gzip file of a NumPy array (.npy); allowed: text in UTF-8"));
  std::string tar(512, '\0');
  tar.replace(0, 5, "a.txt");
  tar.replace(257, 8,
              "ustar\0"
              "00"s);
  EXPECT_THAT(user_error_of([&] { read(put_gzip(folder_ / "t.gz", tar)); }),
              HasSubstr("is a gzip file of a tar archive"));
}

// Words that begin as a magic does, and are text.
TEST_F(TextBytesTest, TakesTextForText) {
  for (const std::string& text :
       {"PAR1,PAR2\n"s, "GGUF is a format"s, "BZh is a file"s, "ID3 tags"s, "GIF8 and more"s, "%PDF"s, "NRRD0"s,
        "Rar!"s, "12345678{\"a\": 1}"s, "a 32ftyp is a box"s, "MATLAB 5.0"s, "a"s, ""s, "\0a\0b"s})
    EXPECT_EQ(read(put_file(folder_ / "a", text)), text);
}

TEST_F(TextBytesTest, NotesBytesThatAreNoText) {
  EXPECT_EQ(read(put_file(folder_ / "a", "caf\xe9 au lait")), "caf\xe9 au lait");
  EXPECT_THAT(note_, HasSubstr("byte 0xe9 at 3 is no UTF-8"));
  EXPECT_EQ(read(put_file(folder_ / "a", kMark + "ab\0c"s)), "ab\0c"s);
  EXPECT_THAT(note_, HasSubstr("the byte at 5 is 0"));
  // A character across the end of the first 64 KiB.
  read(put_file(folder_ / "a", std::string(65535, 'a') + "\xc3\xa9"));
  EXPECT_THAT(note_, IsEmpty());
  read(put_file(folder_ / "a", std::string(100, 'a') + "\xc3"));
  EXPECT_THAT(note_, HasSubstr("byte 0xc3 at 100"));
}

TEST_F(TextBytesTest, NotesBytesThatAreNoTextWhereverTheyAre) {
  const std::string text(200000, 'a');
  for (const size_t piece : {size_t{7919}, size_t{1} << 16, size_t{1} << 22}) {
    read(put_file(folder_ / "a", text + "\xe9 au lait" + text), piece);
    EXPECT_THAT(note_, HasSubstr("byte 0xe9 at 200000 is no UTF-8"));
    read(put_file(folder_ / "a", kMark + text + "\xc3"), piece);
    EXPECT_THAT(note_, HasSubstr("byte 0xc3 at 200003 is no UTF-8"));
    std::string wide_text;
    for (int i = 0; i < 60000; ++i) wide_text += "\xe2\x82\xac";
    read(put_file(folder_ / "a", "a" + wide_text), piece);
    EXPECT_THAT(note_, IsEmpty());
  }
}

TEST_F(TextBytesTest, NotesThatTheTextIsJson) {
  for (const std::string text :
       {"{\"text\": \"a cat\"}\n{\"text\": \"a dog\"}\n", "[{\"text\": \"a\"}]", "[ \"a\", \"b\"]"}) {
    EXPECT_EQ(read(put_file(folder_ / "a", text)), text);
    EXPECT_THAT(note_, HasSubstr("the text is JSON")) << text;
  }
  for (const std::string text :
       {"{a: 1}\n{b: 2}\n", "[1] Smith says\n", "{\"a\": 1} and more\n{\n", "{\"a\": 1}\nText\n", "{"}) {
    read(put_file(folder_ / "a", text));
    EXPECT_THAT(note_, IsEmpty()) << text;
  }
}

TEST_F(TextBytesTest, RefusesPackedTextThatIsCutDamagedOrTooLarge) {
  std::string text;
  std::mt19937 random(3);
  for (int i = 0; i < 300000; ++i) text += static_cast<char>('a' + random() % 26);
  const std::string packed = get_file(put_gzip(folder_ / "t.gz", text));
  EXPECT_THAT(refusal(packed.substr(0, packed.size() - 4)), HasSubstr("truncated"));
  EXPECT_THAT(refusal(packed.substr(0, packed.size() / 2)), HasSubstr("truncated"));
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  EXPECT_THAT(refusal(damaged), HasSubstr("is damaged"));
  const std::string block(size_t{1} << 24, 'a');
  gzFile stream = gzopen((folder_ / "large.gz").c_str(), "wb1");
  for (int i = 0; i < 36; ++i) gzwrite(stream, block.data(), static_cast<unsigned>(block.size()));
  gzclose(stream);
  EXPECT_THAT(user_error_of([&] { read(folder_ / "large.gz"); }),
              AllOf(HasSubstr("unpacks to more than 5"), HasSubstr("gunzip")));
}

class TextLinesTest : public ::testing::Test {
 protected:
  std::vector<std::string> read(const std::string& text, size_t max = 1 << 20) {
    TextLines lines(put_file(folder_ / "t.txt", text), "list of words", max);
    std::vector<std::string> all;
    for (std::string line; lines.next(line);) {
      all.push_back(line);
      EXPECT_EQ(lines.line(), std::ssize(all));
    }
    return all;
  }
  TempFolder folder_;
};

TEST_F(TextLinesTest, EndInEveryWay) {
  EXPECT_THAT(read("a\nb\r\nc\rd"), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(read("a\n"), ElementsAre("a"));
  EXPECT_THAT(read("\r\r\n\n\ra"), ElementsAre("", "", "", "", "a"));
  EXPECT_THAT(read(kMark + "a\n" + kMark + "b"), ElementsAre("a", kMark + "b"));
  EXPECT_THAT(read(""), IsEmpty());
  EXPECT_THAT(read(kMark), IsEmpty());
}

// A naive reader of the whole text gives the same lines, whatever lies at the ends of blocks.
TEST_F(TextLinesTest, AreThoseOfTheWholeText) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    std::string text;
    while (text.size() < 200000) {
      text.append(random() % (round % 2 == 0 ? 60000 : 30), 'x');
      text += std::array<const char*, 3>{"\n", "\r\n", "\r"}[random() % 3];
    }
    text.resize(65536 * (1 + random() % 3) + random() % 3 - 1);
    std::vector<std::string> wanted(1);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
      if (text[i] == '\n' || text[i] == '\r')
        wanted.emplace_back();
      else
        wanted.back() += text[i];
    }
    if (wanted.back().empty()) wanted.pop_back();
    ASSERT_EQ(read(text), wanted);
  }
}

// The rest of a line, or a part of the lines, would look like a whole file.
TEST_F(TextLinesTest, OfAFileThatIsCutAreAnErrorOrAllLines) {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += std::to_string(i) + "\n";
  const int64_t bytes = std::ssize(text);
  for (const int64_t read_before : {int64_t{0}, int64_t{1}, int64_t{29'999}, int64_t{30'000}})
    for (const int64_t size : cut_sizes(bytes)) {
      SCOPED_TRACE(std::to_string(read_before) + " lines, cut to " + std::to_string(size));
      const auto file = put_file(folder_ / "t.txt", text);
      const auto read = [&] {
        TextLines lines(file, "list of words", 100);
        std::string line;
        while (lines.line() < read_before && lines.next(line)) {
        }
        std::filesystem::resize_file(file, static_cast<uintmax_t>(size));
        while (lines.next(line)) {
        }
        return lines.line();
      };
      const bool whole = expect_whole_or_error<int64_t>(file, 30'000, read);
      EXPECT_TRUE(whole || read_before < 30'000);
    }
}

TEST_F(TextLinesTest, RefuseOtherFiles) {
  EXPECT_THAT(read(std::string(100, 'a'), 100), ElementsAre(std::string(100, 'a')));
  EXPECT_THAT(user_error_of([&] { read("ab\n" + std::string(101, 'a'), 100); }),
              HasSubstr("t.txt:2: the line is longer than any list of words's; allowed: 100 bytes"));
  EXPECT_THAT(
      user_error_of([&] { read("\xff\xfe" + wide("word\n", true)); }),
      AllOf(HasSubstr("t.txt: is no list of words; it is text in UTF-16; convert it to UTF-8: iconv -f UTF-16")));
  EXPECT_THAT(user_error_of([&] { TextLines(put_gzip(folder_ / "a.gz", "word\n"), "list of words", 100); }),
              HasSubstr("a.gz: is no list of words; it is a gzip file; unpack it first"));
  EXPECT_THAT(user_error_of([&] { TextLines(folder_ / "none", "list of words", 100); }), HasSubstr("cannot read"));
  EXPECT_THAT(user_error_of([&] { TextLines(folder_.path(), "list of words", 100); }), HasSubstr("cannot read"));
}

}  // namespace
}  // namespace plimsoll
