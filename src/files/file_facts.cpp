#include "files/file_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace plimsoll {
namespace {

thread_local DataNotes* current_notes = nullptr;

}  // namespace

DataNotes::Scope::Scope(DataNotes& notes) : before_(std::exchange(current_notes, &notes)) {}

DataNotes::Scope::~Scope() {
  current_notes = before_;
}

std::vector<std::string> DataNotes::lines() const {
  std::vector<std::string> lines;
  for (const Note& note : notes_) {
    const std::string others = note.further_files == 0   ? ""
                               : note.further_files == 1 ? " and 1 more file"
                                                         : fmt::format(" and {} more files", note.further_files);
    lines.push_back(without_controls(fmt::format("{}{}: {}", note.first_file, others, note.what)));
  }
  return lines;
}

void note_data(const std::filesystem::path& file, std::string what) {
  if (current_notes == nullptr) return;
  std::vector<DataNotes::Note>& notes = current_notes->notes_;
  const auto found = std::ranges::find(notes, what, &DataNotes::Note::what);
  if (found == notes.end())
    notes.push_back({file.string(), std::move(what), 0});
  else if (found->first_file != file.string())
    ++found->further_files;
}

}  // namespace plimsoll
