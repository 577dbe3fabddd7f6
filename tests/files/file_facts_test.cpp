#include "files/file_kind.h"

#include <gmock/gmock.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DataNotes, FilesOfOneTextAreOneLine) {
  DataNotes notes;
  note_data("before.csv", "there is no list yet");
  {
    const DataNotes::Scope scope(notes);
    note_data("a.csv", "has an index");
    note_data("b.csv", "has no names");
    note_data("a.csv", "has an index");
    note_data("c.csv", "has an index");
    {
      DataNotes inner;
      const DataNotes::Scope inner_scope(inner);
      note_data("d.csv", "has a\tmark");
      EXPECT_THAT(inner.lines(), ElementsAre("d.csv: has a?mark"));
    }
    note_data("e.csv", "has an index");
  }
  note_data("f.csv", "the list is closed");
  EXPECT_THAT(notes.lines(), ElementsAre("a.csv and 2 more files: has an index", "b.csv: has no names"));
  EXPECT_THAT(DataNotes().lines(), IsEmpty());
}

}  // namespace
}  // namespace plimsoll
