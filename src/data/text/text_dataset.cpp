#include "data/text/text_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <optional>
#include <vector>

#include "base/file_error.h"
#include "data/sampler.h"
#include "data/text/token_file.h"
#include "files/file_kind.h"
#include "files/text_file.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct Source {
  TextFile text;
  uint64_t key = 0;
  std::filesystem::path cache;
  std::optional<TokenFile> tokens;
};

std::optional<TokenFile> cached_tokens(const Source& source, const Tokenizer& tokenizer) {
  std::error_code error;
  if (!std::filesystem::exists(source.cache, error)) return std::nullopt;
  TokenFile tokens(source.cache);
  if (tokens.source_hash() != source.key || tokens.vocab_size() != tokenizer.vocab_size() || tokens.size() == 0)
    throw UserError(fmt::format("token file {} was made from another text; delete it, it will be made again from {}",
                                source.cache.string(), source.text.path.string()),
                    UserError::Kind::failure);
  return tokens;
}

/// Looks at a file, checks that it is text and can be opened, and finds its cached tokens if there are any.
/// `form` is set to the form of its text.
Source looked_at(const std::filesystem::path& file, const std::filesystem::path& cache_dir, const Tokenizer& tokenizer,
                 TextForm& form) {
  Source source;
  source.text = TextFile::look_at(file);
  // Cached tokens of an earlier commit may be those of a file that is no text.
  form = TextForm::plain;
  errno = 0;
  const bool readable = std::ifstream(file, std::ios::binary).is_open();
  const int problem = errno != 0 ? errno : EIO;
  if (readable) {
    const TextBytes begin(file, "data.files: " + file.string());
    form = begin.form();
    if (!begin.note().empty()) note_data(file, begin.note());
  }
  source.key = token_cache_key(source.text, tokenizer, form);
  source.cache = token_cache_file(cache_dir, source.text, source.key);
  source.tokens = cached_tokens(source, tokenizer);
  if (!source.tokens && !readable) throw_file_error("read", file, problem);
  return source;
}

void tokenize_missing(std::vector<Source>& sources, const Tokenizer& tokenizer, const TextDataset::Progress& progress) {
  int64_t total = 0;
  for (const Source& source : sources)
    if (!source.tokens) total += source.text.bytes;
  if (total == 0) return;
  const auto report = [&](int64_t bytes) {
    if (progress) progress(static_cast<double>(bytes) / static_cast<double>(total));
  };
  report(0);
  int64_t done = 0;
  for (Source& source : sources) {
    if (source.tokens) continue;
    // A file that occurs twice in the list is tokenized once.
    source.tokens = cached_tokens(source, tokenizer);
    if (!source.tokens) {
      tokenize_file(source.text, tokenizer, source.cache, source.key, [&](int64_t bytes) { report(done + bytes); });
      source.tokens = cached_tokens(source, tokenizer);
      check(source.tokens.has_value(), "a token file is there once it was made");
    }
    done += source.text.bytes;
    report(done);
  }
}

/// Returns the number of tokens of a file that need not be tokenized for it.
std::optional<int64_t> known_tokens(const Source& source, const Tokenizer& tokenizer, TextForm form) {
  if (source.tokens) return source.tokens->size();
  if (tokenizer.name() != "bytes" || form == TextForm::packed) return std::nullopt;
  constexpr int64_t kMark = 3, kEndOfText = 1;
  return source.text.bytes - (form == TextForm::marked ? kMark : 0) + kEndOfText;
}

/// Returns the tokens that are not held out.
int64_t training_tokens(int64_t all, double validation_fraction) {
  return all - static_cast<int64_t>(static_cast<double>(all) * validation_fraction);
}

int64_t windows_of(int64_t tokens, int64_t sequence_length) {
  return std::max<int64_t>(tokens - 1, 0) / sequence_length;
}

[[noreturn]] void refuse_short_text(int64_t tokens, int64_t training, int64_t sequence_length) {
  throw UserError(
      fmt::format("data.files: the text has {} tokens, {} of them for training; one window needs "
                  "data.sequence_length {} + 1 tokens: add text, or set a smaller data.sequence_length",
                  tokens, training, sequence_length));
}

}  // namespace

std::optional<int64_t> TextDataset::known_training_windows(const DataConfig& config, const Tokenizer& tokenizer) {
  if (config.sequence_length < 1) return std::nullopt;  // the constructor refuses it
  int64_t all = 0;
  for (const std::filesystem::path& file : config.files) {
    TextForm form = TextForm::plain;
    std::optional<Source> source;
    try {
      source = with_clean_errors([&] { return looked_at(file, config.cache_dir, tokenizer, form); });
    } catch (const UserError&) {
      if (!config.skip_bad) throw;
      continue;
    }
    const std::optional<int64_t> tokens = known_tokens(*source, tokenizer, form);
    if (!tokens) return std::nullopt;
    all += *tokens;
  }
  if (all == 0) return std::nullopt;  // nothing can be read, or there are no files
  const int64_t training = training_tokens(all, config.validation_fraction);
  const int64_t windows = windows_of(training, config.sequence_length);
  if (windows == 0) refuse_short_text(all, training, config.sequence_length);
  return windows;
}

TextDataset::TextDataset(const DataConfig& config, const Tokenizer& tokenizer, const Progress& progress)
    : sequence_length_(config.sequence_length), vocab_size_(tokenizer.vocab_size()) {
  if (config.files.empty()) throw UserError("data.files: name at least one file of text");
  if (config.sequence_length < 1)
    throw UserError(fmt::format("data.sequence_length: {} is less than 1", config.sequence_length));
  if (!(config.validation_fraction >= 0 && config.validation_fraction <= 0.5))
    throw UserError(fmt::format("data.validation_fraction: {} is not in [0, 0.5]", config.validation_fraction));
  check(!config.cache_dir.empty(), "DataConfig::cache_dir is filled in before the data is read");

  // All files are looked at before the first is tokenized, so that a mistyped name fails before minutes of work.
  std::vector<Source> sources;
  for (const std::filesystem::path& file : config.files) {
    try {
      TextForm form = TextForm::plain;
      sources.push_back(with_clean_errors([&] { return looked_at(file, config.cache_dir, tokenizer, form); }));
    } catch (const UserError& problem) {
      if (!config.skip_bad) throw;
      skipped_.emplace_back(problem.what());
    }
  }
  if (sources.empty())
    throw UserError(fmt::format("none of data.files can be read; the first: {}", skipped_.front()),
                    UserError::Kind::failure);
  std::error_code error;
  std::filesystem::create_directories(config.cache_dir, error);
  if (error) throw_file_error("make the folder", config.cache_dir, error.value());
  with_clean_errors([&] { tokenize_missing(sources, tokenizer, progress); });

  for (Source& source : sources) {
    total_tokens_ += source.tokens->size();
    parts_.push_back(std::move(*source.tokens));
    ends_.push_back(total_tokens_);
  }
  train_tokens_ = training_tokens(total_tokens_, config.validation_fraction);
  if (windows(Split::train) == 0) refuse_short_text(total_tokens_, train_tokens_, sequence_length_);
}

int64_t TextDataset::windows(Split split) const {
  return windows_of(tokens(split), sequence_length_);
}

void TextDataset::fill(Split split, int64_t window, int64_t* tokens, int64_t* targets) const {
  check(window >= 0 && window < windows(split), "a window past the end of the data");
  const int64_t begin = (split == Split::train ? 0 : train_tokens_) + window * sequence_length_;
  copy(begin, sequence_length_, tokens);
  copy(begin + 1, sequence_length_, targets);
}

void TextDataset::copy(int64_t begin, int64_t count, int64_t* out) const {
  auto part = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
  while (count > 0) {
    const int64_t part_begin = part == 0 ? 0 : ends_[part - 1];
    const int64_t here = std::min(count, ends_[part] - begin);
    parts_[part].copy(begin - part_begin, here, out);
    begin += here;
    count -= here;
    out += here;
    ++part;
  }
}

Batch make_text_batch(const TextDataset& data, const WindowOrder& order, Split split, int64_t first_sample,
                      int64_t samples) {
  check(samples >= 1, "a batch has at least one sample");
  check(order.count() == data.windows(split), "the order is of another split");
  const int64_t length = data.sequence_length();
  const auto field = [&](const char* name) {
    const auto bytes = static_cast<std::size_t>(samples * length) * sizeof(int64_t);
    return BatchField{name, DType::int64, {samples, length}, std::vector<std::byte>(bytes)};
  };
  Batch batch{first_sample, samples, {}};
  batch.fields.push_back(field("tokens"));
  batch.fields.push_back(field("targets"));
  // operator new aligns the bytes for any type: they may be written as int64.
  auto* tokens = reinterpret_cast<int64_t*>(batch.fields[0].bytes.data());
  auto* targets = reinterpret_cast<int64_t*>(batch.fields[1].bytes.data());
  for (int64_t i = 0; i < samples; ++i)
    data.fill(split, order.index(first_sample + i), tokens + i * length, targets + i * length);
  return batch;
}

namespace {

constexpr int64_t kMaxCountedTokens = int64_t{4} << 20;  // a fraction of a second to read

class TextSamples final : public SampleSource {
 public:
  TextSamples(const DataConfig& config, const Tokenizer& tokenizer, const TextDataset::Progress& progress)
      : dataset_(config, tokenizer, progress) {}
  int64_t samples(Split split) const override { return dataset_.windows(split); }
  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    return make_text_batch(dataset_, order, split, first, count);
  }
  /// The loss by each token's frequency in at most 4 Mi training tokens (at least one window), in windows spread evenly
  /// over the text; each token is counted once more.
  std::vector<Baseline> baselines(const std::vector<int64_t>& held_out) const override {
    if (held_out.empty()) return {};
    const int64_t length = dataset_.sequence_length();
    const std::vector<int64_t> read = evenly_spread(dataset_.windows(Split::train), kMaxCountedTokens / length);
    const std::vector<int64_t> counts = counts_of_targets(Split::train, read);
    const std::vector<int64_t> predicted = counts_of_targets(Split::validation, held_out);
    const auto counted = static_cast<double>(std::ssize(read) * length + dataset_.vocab_size());
    double nats = 0;
    for (size_t token = 0; token < counts.size(); ++token)
      nats -= static_cast<double>(predicted[token]) * std::log(static_cast<double>(counts[token] + 1) / counted);
    return {{kEvaluationLoss, "by the tokens' frequencies", nats / static_cast<double>(std::ssize(held_out) * length)}};
  }
  std::vector<std::string> skipped() const override { return dataset_.skipped(); }

 private:
  /// Returns how often each token of the vocabulary is a target in these windows.
  std::vector<int64_t> counts_of_targets(Split split, const std::vector<int64_t>& windows) const {
    std::vector<int64_t> counts(static_cast<size_t>(dataset_.vocab_size()));
    std::vector<int64_t> tokens(static_cast<size_t>(dataset_.sequence_length())), targets(tokens.size());
    for (const int64_t window : windows) {
      dataset_.fill(split, window, tokens.data(), targets.data());
      for (const int64_t token : targets) ++counts[static_cast<size_t>(token)];
    }
    return counts;
  }

  TextDataset dataset_;
};

}  // namespace

std::unique_ptr<SampleSource> text_samples(const DataConfig& config, const Tokenizer& tokenizer,
                                           const TextDataset::Progress& progress) {
  return std::make_unique<TextSamples>(config, tokenizer, progress);
}

}  // namespace plimsoll
