// Opens a job's samples, and collects the facts about its data that a checkpoint holds (checkpoint/data_facts.h).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/data_facts.h"
#include "data/batch.h"
#include "data/text/tokenizer.h"
#include "plimsoll/job.h"
#include "plimsoll/training.h"

namespace plimsoll {

/// Called while data are opened, with the slow operation and its progress in [0, 1]. It may throw to stop it.
using DataProgress = std::function<void(const std::string& what, double fraction)>;

/// Sets `data.evaluated` if it is empty. The step is recorded before the data are opened, so this reads a list of clips
/// or pictures, which may hold samples out by its own split. A list that cannot be read holds none out; open_samples()
/// reports the error.
void decide_evaluation(DataConfig& data);

struct OpenedSamples {
  std::unique_ptr<SampleSource> source;
  /// Set if the samples are windows of its tokens: it is part of the origin that a checkpoint stores
  /// (job/shared_keys.h).
  std::unique_ptr<Tokenizer> tokenizer = nullptr;
  /// tokenizer_text() of the tokenizer that made the samples; empty: they have no tokens.
  std::string tokenizer_text = {};
  std::vector<std::string> notes = {};  ///< notes of the readers on files (files/file_kind.h)
};

/// Opens the samples of a job whose model takes `step`. Throws UserError for files that cannot be read, and for samples
/// that do not match the step's inputs.
OpenedSamples open_samples(const Job& job, const Step& step, const DataProgress& progress);

/// A file or folder of data, and the key that names it or its list.
struct DataFileOfKey {
  std::string key;
  std::filesystem::path path;
};

/// Returns all files and folders of data that a job reads: data.files, those of the kind's other keys, and the files
/// that a list of the job names, each once. Empty if the samples are random. Throws UserError for a list that cannot be
/// read. The tokenizer's file is not among them.
std::vector<DataFileOfKey> data_files(const Job& job);

/// Returns the identity of every file that the job reads (data_files()), and the settings of the
/// split and the order. Keys with more than 256 files have one fact for all of them, and so has a folder. `tokenizer`:
/// OpenedSamples::tokenizer_text. `progress` is called with the done fraction in [0, 1] before each file, and may
/// throw. A file that cannot be read is a UserError that names its key; with data.skip_bad it is
/// no data and has no fact, and neither has an empty file. Reads at most 4 MiB of each file.
DataFacts data_facts_of(const Job& job, const std::string& tokenizer,
                        const std::function<void(double fraction)>& progress);

}  // namespace plimsoll
