#include "cli/screen/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Table, AlignsColumnsAndRules) {
  Table table({{"", Align::left}, {"planned", Align::right}, {"used", Align::right}}, "Memory at the peak");
  table.add_row({"parameters", "4.00 GiB", "4.00 GiB"});
  table.add_row({"activations", "12.20 GiB", "1.2 GiB"});
  table.add_rule();
  table.add_row({"total", "16.20 GiB"});
  EXPECT_EQ(table.to_string(),
            "Memory at the peak\n"
            "\n"
            "               planned      used\n"
            "--------------------------------\n"
            "parameters    4.00 GiB  4.00 GiB\n"
            "activations  12.20 GiB   1.2 GiB\n"
            "--------------------------------\n"
            "total        16.20 GiB\n");
}

TEST(Table, WithoutNamesThereIsNoHeader) {
  Table table({{""}, {""}});
  table.add_row({"a", "1"});
  table.add_row({"bcd", "2"});
  EXPECT_EQ(table.to_string(), "a    1\nbcd  2\n");
}

TEST(Table, WideAndCombiningCharactersLineUp) {
  Table table({{"name"}, {"n", Align::right}});
  table.add_row({"層", "1"});
  table.add_row({"größe", "22"});
  EXPECT_EQ(table.to_string(),
            "name    n\n"
            "---------\n"
            "層      1\n"
            "größe  22\n");
}

TEST(Table, BoldOnlyWhenTold) {
  Table table({{"name"}}, "Title");
  table.add_row({"x"});
  EXPECT_THAT(table.to_string(), Not(HasSubstr("\x1b")));
  EXPECT_EQ(table.to_string(Screen{.bold = true}), "\x1b[1mTitle\x1b[0m\n\n\x1b[1mname\x1b[0m\n----\nx\n");
}

TEST(Table, CellsCannotBreakTheTable) {
  Table table({{"name"}});
  table.add_row({"a\nb\x1b[31m"});
  EXPECT_THAT(table.to_string(), HasSubstr("a?b?[31m\n"));
}

// One table on screens of decreasing width: adjacent columns move below, optional columns disappear, the widest of the
// columns that can be shortened is shortened.
TEST(Table, FitsTheScreen) {
  Table table({{.name = "operator", .fit = Fit::end, .min_width = 8},
               {"time", Align::right},
               {.name = "floor", .align = Align::right, .drop = 1},
               {.name = "module", .fit = Fit::middle, .min_width = 8},
               {.name = "settings", .fit = Fit::below}},
              "Ops by time");
  table.add_row({"plimsoll::attention", "1.0 ms", "0.5 ms", "layers.0.attention", "32-true, micro batch 8 x 2"});
  const auto at = [&](size_t columns) { return table.to_string(Screen{.columns = columns}); };
  EXPECT_EQ(at(100),
            "Ops by time\n\n"
            "operator               time   floor  module              settings\n"
            "-----------------------------------------------------------------------------------\n"
            "plimsoll::attention  1.0 ms  0.5 ms  layers.0.attention  32-true, micro batch 8 x 2\n");
  EXPECT_EQ(at(60),
            "Ops by time\n\n"
            "operator               time   floor  module\n"
            "-------------------------------------------------------\n"
            "plimsoll::attention  1.0 ms  0.5 ms  layers.0.attention\n"
            "  32-true, micro batch 8 x 2\n");
  EXPECT_EQ(at(40),
            "Ops by time\n\n"
            "operator       time   floor  module\n"
            "----------------------------------------\n"
            "plimsoll::…  1.0 ms  0.5 ms  lay…tention\n"
            "  32-true, micro batch 8 x 2\n");
  EXPECT_EQ(at(26),
            "Ops by time\n\n"
            "operator    time  module\n"
            "--------------------------\n"
            "plimsol…  1.0 ms  la…ntion\n"
            "  32-true, micro batch\n"
            "    8 x 2\n"
            "Left out on 26 columns:\n"
            "  floor; COLUMNS=34 and\n"
            "  --json have them.\n");
}

TEST(Table, NamesAllColumnsThatItLeavesOut) {
  Table table({{"gpu"},
               {.name = "host GB/s", .align = Align::right, .drop = 2},
               {.name = "", .drop = 1},
               {.name = "MiB", .align = Align::right, .drop = 3}});
  table.add_row({"a6000", "31.5", "predicted", "446"});
  EXPECT_THAT(table.to_string(Screen{.columns = 32}), Not(HasSubstr("Left out")));
  EXPECT_THAT(table.to_string(Screen{.columns = 31}), HasSubstr("Left out on 31 columns: MiB;\n  COLUMNS=32 "));
  EXPECT_THAT(
      table.to_string(Screen{.columns = 15, .lines = 24}),
      HasSubstr("Left out on 15\n  columns: host\n  GB/s, MiB; a\n  wider\n  terminal and\n  --json have\n  them.\n"));
}

TEST(Table, RepeatsAHeaderThatHasScrolledAway) {
  Table table({{"gpu"}, {"bf16", Align::right}}, "GPUs");
  for (const char* name : {"a10", "a100", "a6000"}) table.add_row({name, "1.0"});
  const std::string text = "GPUs\n\ngpu    bf16\n-----------\na10     1.0\na100    1.0\na6000   1.0\n";
  EXPECT_EQ(table.to_string(), text);
  EXPECT_EQ(table.to_string(Screen{.lines = 8}), text);  // one line is that of the prompt
  EXPECT_EQ(table.to_string(Screen{.lines = 7}), text + "-----------\ngpu    bf16\n");
}

TEST(Table, FoldsProse) {
  Table table({{""}, {.fit = Fit::fold, .min_width = 5}});
  table.add_row({"optimizer", "adamw, state 8bit, weights stochastic"});
  table.add_row({"step", "3 ms"});
  EXPECT_EQ(table.to_string(Screen{.columns = 30}),
            "optimizer  adamw, state 8bit,\n"
            "           weights stochastic\n"
            "step       3 ms\n");
}

TEST(Table, TooManyCellsAreOurBug) {
  Table table({{"name"}});
  EXPECT_THROW(table.add_row({"a", "b"}), InternalError);
  EXPECT_THROW(Table(std::vector<Column>()), InternalError);
}

}  // namespace
}  // namespace plimsoll
