#include "data/text/token_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace plimsoll {
namespace {

TEST(TokenTrie, FindsTheLongestToken) {
  const TokenTrie trie({{"a", 1}, {"abc", 2}, {"abd", 3}, {"b", 4}, {"", 5}, {"a", 6}});
  EXPECT_EQ(trie.longest("abdx").value, 3);
  EXPECT_EQ(trie.longest("abdx").bytes, 3u);
  EXPECT_EQ(trie.longest("abx").value, 1);
  EXPECT_EQ(trie.longest("b").value, 4);
  EXPECT_EQ(trie.longest("xa").bytes, 0u);
  EXPECT_EQ(trie.longest("").value, -1);
  EXPECT_EQ(TokenTrie().longest("a").value, -1);
  EXPECT_EQ(TokenTrie(std::vector<TokenTrie::Entry>()).longest("a").value, -1);
  EXPECT_EQ(TokenTrie(std::vector<TokenTrie::Entry>{{"\xff\x80", 7}}).longest("\xff\x80\x80").bytes, 2u);
}

TEST(TokenTrie, AgreesWithATableOfAllStarts) {
  std::mt19937 random(3);
  const auto text = [&](size_t longest) {
    std::string made(random() % (longest + 1), 'a');
    for (char& c : made) c = static_cast<char>("ab\xc3"[random() % 3]);
    return made;
  };
  for (int round = 0; round < 200; ++round) {
    std::map<std::string, int32_t> known;
    std::vector<TokenTrie::Entry> entries;
    for (int32_t i = 0; i < 30; ++i) {
      entries.push_back({text(6), i});
      known.emplace(entries.back().text, i);
    }
    known.erase("");
    const TokenTrie trie(entries);
    for (int i = 0; i < 50; ++i) {
      const std::string sought = text(10);
      TokenTrie::Match best;
      for (size_t size = 1; size <= sought.size(); ++size)
        if (const auto found = known.find(sought.substr(0, size)); found != known.end()) best = {found->second, size};
      ASSERT_EQ(trie.longest(sought).value, best.value) << "round " << round;
      ASSERT_EQ(trie.longest(sought).bytes, best.bytes) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace plimsoll
