#include "data/clips/captions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kIgnored = -100;

}  // namespace

CaptionTokens caption_tokens(const Tokenizer& tokenizer, const std::string& prompt, const std::string& caption,
                             int64_t length, const std::string& place) {
  CaptionTokens result;
  std::vector<int32_t> all = tokenizer.encode(prompt);
  // At least one token must come before the first token of the caption.
  if (all.empty()) all.push_back(tokenizer.end_of_text());
  const size_t before = all.size();
  result.caption = tokenizer.encode(caption);
  result.caption.push_back(tokenizer.end_of_text());
  all.insert(all.end(), result.caption.begin(), result.caption.end());
  if (std::ssize(all) - 1 > length)
    throw UserError(
        fmt::format("{}: prompt and caption are {} tokens; data.sequence_length is {}: give it that "
                    "many, or shorten the caption",
                    place, all.size() - 1, length));
  const auto size = static_cast<size_t>(length);
  result.tokens.assign(size, tokenizer.end_of_text());
  result.targets.assign(size, kIgnored);
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    result.tokens[i] = all[i];
    if (i + 1 >= before) result.targets[i] = all[i + 1];
  }
  return result;
}

CaptionBaseline blind_captions(const std::vector<std::vector<int32_t>>& captions, const std::vector<int64_t>& trained,
                               const std::vector<int64_t>& held_out) {
  // For each beginning of a caption: the tokens that followed it, and their counts.
  std::map<std::vector<int32_t>, std::map<int32_t, int64_t>> followed;
  for (size_t i = 0; i < captions.size(); ++i)
    if (trained[i] > 0)
      for (size_t t = 0; t < captions[i].size(); ++t)
        followed[{captions[i].begin(), captions[i].begin() + static_cast<ptrdiff_t>(t)}][captions[i][t]] += trained[i];

  const auto most = [](const std::map<int32_t, int64_t>& counts) {
    return std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
  };
  // The blind answer is one caption for all clips: the most frequent one.
  const auto usual = std::ranges::max_element(trained) - trained.begin();
  int64_t clips = 0, tokens = 0, right = 0, whole = 0;
  double nats = 0;
  for (size_t i = 0; i < captions.size(); ++i) {
    if (held_out[i] == 0) continue;
    int64_t hits = 0;
    for (size_t t = 0; t < captions[i].size(); ++t) {
      const auto found = followed.find({captions[i].begin(), captions[i].begin() + static_cast<ptrdiff_t>(t)});
      int64_t total = 0, this_one = 0;
      if (found != followed.end()) {
        for (const auto& [token, count] : found->second) total += count;
        if (const auto at = found->second.find(captions[i][t]); at != found->second.end()) this_one = at->second;
        hits += most(found->second) == captions[i][t];
      }
      nats -= std::log(static_cast<double>(this_one) / static_cast<double>(std::max<int64_t>(1, total))) *
              static_cast<double>(held_out[i]);
    }
    const auto size = std::ssize(captions[i]);
    clips += held_out[i];
    tokens += size * held_out[i];
    right += hits * held_out[i];
    whole += captions[i] == captions[static_cast<size_t>(usual)] ? held_out[i] : 0;
  }
  const double per_token = static_cast<double>(std::max<int64_t>(1, tokens));
  return {static_cast<double>(whole) / static_cast<double>(std::max<int64_t>(1, clips)),
          static_cast<double>(right) / per_token, nats / per_token};
}

}  // namespace plimsoll
