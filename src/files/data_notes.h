// Declares the list of what readers say about files of data: assumptions that the user should know of.
//
// Readers are several calls below the program that shows notes. So the list belongs to a thread while a
// DataNotes::Scope lives, like the count of files/data_memory.h; without one nothing is kept.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll {

/// A list of notes. For one thread at a time.
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
