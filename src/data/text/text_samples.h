// Declares the sample source of text: windows of tokens.
#pragma once

#include <memory>

#include "data/sample_source.h"
#include "data/text/text_dataset.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll {

/// Returns the job's text as samples. It is tokenized here unless an earlier job has done so (see TextDataset).
std::unique_ptr<SampleSource> text_samples(const DataConfig& config, const Tokenizer& tokenizer,
                                           const TextDataset::Progress& progress);

}  // namespace plimsoll
