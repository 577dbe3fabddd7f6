// Reads files of text in UTF-8: as bytes, plain or packed by gzip, and as lines.
//
// Both readers look at the first bytes before they take the file as text. A file of another kind, or in another
// encoding, is refused by its name (files/file_kind.h); a byte order mark is skipped.
//
// Bounds: TextBytes holds a buffer of 64 KiB; a packed text has at most 512 MiB + 16 x its packed bytes
// (files/data_memory.h). TextLines holds a block of 64 KiB and one line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "files/file_kind.h"
#include "plimsoll/error.h"

struct gzFile_s;

namespace plimsoll {

namespace text_files {

inline constexpr FileFact kFacts[] = {
    {"text", "byte order mark of UTF-8", "applied", "it is no part of the text, and is skipped at the begin of a file"},
    {"text", "gzip", "applied",
     "data.files of data.type text are unpacked, within a limit; lists, tables, .ts files and JSON are refused by "
     "name"},
    {"text", "zstd, bzip2, xz, lzma, lz4, compress, zip, 7z, rar, tar", "refused", "unpack the file first"},
    {"text", "UTF-16, UTF-32", "refused",
     "by their byte order mark, by a 0 in every second byte, or by four bytes for every character; convert the file "
     "with "
     "iconv; a job file may be in UTF-16"},
    {"text", "arrays, pictures, sound, videos, tables, models and documents in binary formats", "refused",
     "by the first bytes, whatever the name of the file"},
    {"text", "bytes that are no UTF-8, and bytes of 0", "applied",
     "the bytes are taken as they are; a line of the run names the first: within 64 KiB at every start, behind them "
     "when the text is tokenized"},
    {"text", "JSON, as a list or one object a line", "applied",
     "as text, braces and names of fields included; a line of the run says so"},
    {"text", "line ends", "applied", "lines end with a line feed, a carriage return, or both"},
};
static_assert(are_complete(kFacts));

}  // namespace text_files

/// A form of the bytes of a text file.
enum class TextForm : uint8_t { plain, marked, packed };  // marked: a byte order mark comes before the text

/// A reader of the bytes of a text, unpacked and without a byte order mark.
class TextBytes {
 public:
  /// Opens the file and looks at its first bytes. Throws UserError that begins with `place`, such as
  /// "data.files: a.txt", if the file cannot be read or is no text.
  TextBytes(const std::filesystem::path& file, const std::string& place);

  TextForm form() const { return form_; }
  /// Returns a note on bytes that are no UTF-8 within the first 64 KiB or those that were read, or on text that is
  /// JSON; "" if there is none.
  const std::string& note() const { return note_; }

  /// Fills `to` as far as the text goes, and returns the number of bytes. Throws UserError (failure) for a packed file
  /// that is damaged, truncated, or unpacks to more than it may.
  size_t read(std::span<char> to);
  /// Returns the bytes of the file on disk that have been read, at most its size.
  int64_t file_bytes_read() const;

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  [[noreturn]] void refuse(const std::string& what) const;
  size_t read_file(std::span<char> to);
  /// Looks for bytes that are no UTF-8 in the next piece of the text, for note().
  void watch(std::string_view text, bool at_end);

  std::filesystem::path path_;
  std::string cut_;                   // bytes at the end of what watch() was given that may begin a character
  int64_t watched_ = 0;               // bytes of the text that watch() was given
  std::string place_, note_, begin_;  // begin_: bytes that were looked at, from begin_at_ on not read yet
  size_t begin_at_ = 0;
  std::ifstream plain_;
  std::unique_ptr<gzFile_s, Close> packed_;
  TextForm form_ = TextForm::plain;
  int64_t file_bytes_ = 0, bytes_ = 0;
};

/// A reader of the lines of a text file. A line ends with a line feed, a carriage return, or both.
class TextLines {
 public:
  /// `wanted` names the file in a refusal: "FILE: is no table (.csv); it is a gzip file". `kind` is that of the errors.
  /// Throws UserError for a file that cannot be read or is no text.
  TextLines(const std::filesystem::path& file, std::string_view wanted, size_t max_line_bytes,
            UserError::Kind kind = UserError::Kind::failure);

  /// Sets `line` to the next line without its end; returns false after the last. Throws UserError with file and line if
  /// a line has more than `max_line_bytes` bytes. Throws UserError (failure) if the file ends before the size that it
  /// had when it was opened.
  bool next(std::string& line);

  int64_t line() const { return line_; }  ///< number of the line, from 1, that next() returned last
  std::string place() const;              ///< "table.csv:3"

 private:
  bool fill();

  std::filesystem::path path_;
  std::string wanted_;
  size_t max_line_bytes_;
  UserError::Kind kind_;
  std::ifstream stream_;
  int64_t file_bytes_ = 0, bytes_ = 0;  // bytes when the file was opened, and bytes read
  std::string block_;
  size_t at_ = 0;
  bool after_return_ = false;  // the last line ended with a carriage return; a line feed belongs to it
  int64_t line_ = 0;
};

}  // namespace plimsoll
