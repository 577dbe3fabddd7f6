// Declares the form of the tables that say what a reader does with each field of a format.
//
// A reader of files from outside has such a table: a constexpr array `kFacts` in a namespace of its own, next to the
// reader (files/nifti_facts.h). A field is in one row of the table of its format.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace plimsoll {

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

}  // namespace plimsoll
