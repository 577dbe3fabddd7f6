// Declares a data set of windows of tokens from text files, its batches, and its samples for the training loop.
//
//     file 1 tokens, end of text, file 2 tokens, end of text      the files are one line of tokens
//     |--------- train -----------|-- validation --|              cut once; the end is held out
//     [0 1 2 3]                                                   window 0 of sequence_length 3: tokens 0 1 2,
//           [3 4 5 6]                                             targets 1 2 3; window 1: tokens 3 4 5, targets 4 5 6
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/sampler.h"
#include "data/text/token_file.h"
#include "data/text/tokenizer.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// A data set of windows. Any number of threads may read it.
class TextDataset {
 public:
  /// Called with the tokenized fraction, from 0 to 1, of the bytes to be tokenized. Not called if an earlier job has
  /// tokenized every file.
  using Progress = std::function<void(double fraction)>;

  /// Tokenizes each of config.files, unless config.cache_dir has its tokens already. The folder is made if it is
  /// missing; its path is absolute or relative to the current folder. Cached tokens are found by the file's path, size
  /// and time of change, and by the tokenizer. Memory does not grow with the text. Throws UserError for files that are
  /// missing, not regular, empty or change while they are read, and if the text has less than one window to train on.
  /// With config.skip_bad a file that cannot be read is left out, if at least one is left. A file that changes while it
  /// is read still stops the job.
  TextDataset(const DataConfig& config, const Tokenizer& tokenizer, const Progress& progress = {});

  /// Returns windows(Split::train) if no text has to be tokenized for it: the tokens of every file are cached, or are
  /// its bytes. Else nullopt. Throws UserError for files that are missing or no text, and for text of less than a
  /// window.
  static std::optional<int64_t> known_training_windows(const DataConfig& config, const Tokenizer& tokenizer);

  /// Returns the files that were left out, one line each with the reason.
  const std::vector<std::string>& skipped() const { return skipped_; }

  /// Returns the tokens of a window that a model reads: the size of `tokens` and of `targets`.
  int64_t sequence_length() const { return sequence_length_; }

  int64_t vocab_size() const { return vocab_size_; }

  /// Returns the number of tokens in a part of the text.
  int64_t tokens(Split split) const { return split == Split::train ? train_tokens_ : total_tokens_ - train_tokens_; }

  /// Returns the number of whole windows in a part; validation may have none.
  int64_t windows(Split split) const;

  /// Writes window `window`, 0 <= window < windows(split): sequence_length() tokens, and as many targets, which are the
  /// tokens that follow each.
  void fill(Split split, int64_t window, int64_t* tokens, int64_t* targets) const;

 private:
  void copy(int64_t begin, int64_t count, int64_t* out) const;

  std::vector<TokenFile> parts_;  // one for each text file, in the order of config.files
  std::vector<int64_t> ends_;     // ends_[i]: tokens of parts 0 to i
  int64_t sequence_length_ = 0;
  int64_t vocab_size_ = 0;
  int64_t total_tokens_ = 0;
  int64_t train_tokens_ = 0;
  std::vector<std::string> skipped_;
};

/// Returns samples [first_sample, first_sample + samples) of `order`, whose count is data.windows(split). The batch has
/// two fields of int64 [samples, sequence_length]: "tokens", and "targets", the token after each.
Batch make_text_batch(const TextDataset& data, const WindowOrder& order, Split split, int64_t first_sample,
                      int64_t samples);

/// Returns the job's text as samples. It is tokenized here unless an earlier job has done so (see TextDataset).
std::unique_ptr<SampleSource> text_samples(const DataConfig& config, const Tokenizer& tokenizer,
                                           const TextDataset::Progress& progress);

}  // namespace plimsoll
