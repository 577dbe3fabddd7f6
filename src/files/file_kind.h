// Declares the kind of a file by its first bytes, and facts of files that decide what is read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Recognizes a file by its first bytes, for the message of a reader that was given a file of another kind.

inline constexpr std::string_view kGzip = "a gzip file";

/// Returns "a PNG picture", "a NumPy array (.npy)", ...; "" if the bytes are of no known kind. `bytes` are the file's
/// first; at most 265 of them are read.
std::string_view file_kind(std::span<const std::byte> bytes);

/// Returns the kind of a file; "" if it cannot be read.
std::string_view file_kind(const std::filesystem::path& file);

/// Returns the kind of bytes that are no text in UTF-8: that of file_kind(), or "text in UTF-16"; "" if they may be
/// text. UTF-16 without a byte order mark is recognized if every second byte is 0, as in text of ASCII characters;
/// UTF-32 without a mark, if every four bytes are a character.
/// `bytes` are the file's first; at most 265 of them are read.
std::string_view non_text_kind(std::span<const std::byte> bytes);

/// Returns a remedy for a file of a kind of non_text_kind(): "unpack it first", "convert it to UTF-8: iconv ...".
std::string text_remedy(std::string_view kind, const std::filesystem::path& file);

// The tables that say what a reader does with each field of a format, and the list of notes that readers
// make about files of data.
//
// A reader of files from outside has such a table: a constexpr array `kFacts` in a namespace of its own, next to the
// reader (files/nifti_header.h). A field is in one row of the table of its format.

/// A field of a format, and its treatment by the reader.
struct FileFact {
  std::string_view format;     ///< "NIfTI-1", "config.json (llama)"
  std::string_view field;      ///< "sform_code"; fields of one treatment and reason together: "cal_min, cal_max"
  std::string_view treatment;  ///< one of kTreatments
  std::string_view note;       ///< applied: the effect; refused: the values and the remedy; ignored: the reason
};

/// applied: the field changes the result as its format says. refused: a file with the field, or with some of its
/// values, is an error that names the field. ignored: the field cannot change the result.
inline constexpr std::array<std::string_view, 3> kTreatments = {"applied", "refused", "ignored"};

/// Returns true if every row has a format, a field, a known treatment and a note.
constexpr bool are_complete(std::span<const FileFact> facts) {
  return std::ranges::all_of(facts, [](const FileFact& fact) {
    return !fact.format.empty() && !fact.field.empty() && !fact.note.empty() &&
           std::ranges::find(kTreatments, fact.treatment) != kTreatments.end();
  });
}

/// Calls visit(field) for each field of a row: "cal_min, cal_max" has two.
template <typename Visit>
constexpr void for_each_field_of(const FileFact& fact, const Visit& visit) {
  std::string_view rest = fact.field;
  for (size_t comma; (comma = rest.find(", ")) != std::string_view::npos; rest.remove_prefix(comma + 2))
    visit(rest.substr(0, comma));
  visit(rest);
}

/// Returns true if the row has the field.
constexpr bool has_field(const FileFact& fact, std::string_view field) {
  bool found = false;
  for_each_field_of(fact, [&](std::string_view each) { found |= each == field; });
  return found;
}

/// A list of notes of readers on files of data: assumptions that the user should know of. For one thread at a time.
///
/// Readers are several calls below the program that shows notes. So the list belongs to a thread while a Scope lives,
/// like the count of files/data_memory.h; without one nothing is kept.
class DataNotes {
 public:
  /// A scope in which note_data() on this thread adds to `notes`. Scopes nest.
  class Scope {
   public:
    explicit Scope(DataNotes& notes);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DataNotes* before_;
  };

  /// Returns one line for each text, "a.csv: WHAT"; several files of one text are "a.csv and 3 more files: WHAT".
  std::vector<std::string> lines() const;

 private:
  friend void note_data(const std::filesystem::path& file, std::string what);

  struct Note {
    std::string first_file, what;
    size_t further_files = 0;
  };
  std::vector<Note> notes_;  // in the order of first occurrence
};

/// Adds a note about a file to the thread's list. `what` begins with a noun or a verb and ends without a period.
void note_data(const std::filesystem::path& file, std::string what);

}  // namespace plimsoll
