// Declares a fixture for the baselines of texts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "data/text/text_dataset.h"
#include "test_files.h"

namespace plimsoll::testing {

/// A fixture that writes texts of bytes and holds a quarter of each out.
class TextBaselineTest : public ::testing::Test {
 protected:
  /// Returns a configuration with windows of `length` tokens, over a new file with `text`.
  DataConfig config_of(const std::string& text, int64_t length) {
    DataConfig config;
    config.files = {put_file(folder_ / ("text" + std::to_string(made_++)), text)};
    config.sequence_length = length;
    config.validation_fraction = 0.25;
    config.cache_dir = folder_ / "cache";
    return config;
  }

  /// Returns the numbers of all held-out windows.
  static std::vector<int64_t> all(const TextDataset& data) {
    std::vector<int64_t> windows(static_cast<size_t>(data.windows(Split::validation)));
    std::iota(windows.begin(), windows.end(), 0);
    return windows;
  }

  const std::unique_ptr<Tokenizer> bytes_ = make_tokenizer("bytes", "");
  TempFolder folder_;
  int made_ = 0;
};

}  // namespace plimsoll::testing
