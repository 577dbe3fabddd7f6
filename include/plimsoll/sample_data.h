// Declares section `data` of a job file: the source of samples, with a configuration for each `data.type`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

/// A configuration of `data.type: series`: sequences of vectors, each with a class, in .ts, .csv, .npy and .npz files
/// (data.files).
struct SeriesConfig {
  /// Files whose series are all held out; empty: the fraction data.validation_fraction of the series in data.files.
  std::vector<std::filesystem::path> validation_files;
  /// Files whose series are all held out for the test; empty: the fraction data.test_fraction of the series in
  /// data.files.
  std::vector<std::filesystem::path> test_files;
  /// For .npy files, which hold no classes: one .npy file of classes for each of data.files, validation_files and
  /// test_files.
  std::vector<std::filesystem::path> labels, validation_labels, test_labels;
  int64_t length = 100;                 ///< vectors of a series
  double train_ratio_of_vectors = 1.0;  ///< (0, 1]: fraction of a series' vectors that a sample has
  bool pad = false;                     ///< shorter series and missing values are filled with the mean
  std::string order = "time";           ///< time | hilbert
  int64_t hilbert_bits = 8;             ///< bits of each coordinate of the curve
  /// Channels that are coordinates of the curve, -1: time; empty: time and all channels.
  std::vector<int64_t> hilbert_axes;
  /// Returns the number of vectors in a sample, at least 1.
  int64_t vectors() const {
    return std::max<int64_t>(1, std::llround(static_cast<double>(length) * train_ratio_of_vectors));
  }
};

/// A configuration of `data.type: slices`: slices of volumes with anatomical labels, in NIfTI files (data.files). A
/// sample is a slice and a structure in it: the image, a prompt that names the structure, and its mask.
struct SlicesConfig {
  std::vector<std::filesystem::path> labels;    ///< one label file for each of data.files, on the same grid
  std::filesystem::path label_names;            ///< file with lines of a label's number and its name
  std::vector<std::string> structures = {"*"};  ///< globs of the structure names to use
  std::string axis = "z";                       ///< x | y | z: axis that the slices are perpendicular to
  int64_t min_pixels = 16;                      ///< smallest mask of a sample in pixels, at the model's image_size
  int64_t validation_block = 6;                 ///< number of adjacent slices that are held out together
  int64_t validation_gap = 2;  ///< number of slices on either side of held-out slices that are not used
  double augment = 0;          ///< [0, 0.5]: amount by which training slices are shifted, scaled and rotated
  std::string prompt = "Segment the {}.";  ///< {} is the structure's name
  std::string answer = " It is here:";     ///< answer that the language model continues with
};

/// A configuration of `data.type: pictures`: pictures and masks in PNG and JPEG files. A sample is a picture and a
/// structure in its masks. Names, prompts, augmentation and min_pixels are those of SlicesConfig.
struct PicturesConfig {
  std::filesystem::path images, masks;  ///< folders; a picture and its mask have the same name
  std::filesystem::path list;  ///< CSV or JSON lines with picture, mask and more for each sample; empty: the folders
  /// picture: mean 0 and deviation 1 for each; imagenet: that data set's mean and deviation.
  std::string normalize = "picture";
};

/// A configuration of `data.type: clips`: clips of video files (data.files, or those of a list), each with a caption.
struct ClipsConfig {
  std::filesystem::path list;               ///< lines "path TAB caption [TAB start TAB end]"; empty: data.files
  std::optional<int64_t> max_frames = 100;  ///< pictures of a clip, evenly spaced; empty: all, at kClipFrameRate
  double clip_seconds = 4;
  double clip_stride = 0;  ///< seconds between the starts of consecutive training clips; 0: clip_seconds
  std::string prompt = "Describe the video: ";  ///< text before the caption; not learned
};

/// Pictures a second if all are used, and the largest number in a clip. The shapes of a step must be known before its
/// data.
constexpr double kClipFrameRate = 30;
constexpr int64_t kMaxClipFrames = 4096;

/// Returns the pictures of every clip; at most kMaxClipFrames.
int64_t frames_of_clip(const ClipsConfig& config);

/// A configuration of `data.type: stimuli`: volumes of an fMRI series, and the pictures, sound and words before each.
struct StimuliConfig {
  std::filesystem::path fmri;  ///< NIfTI (.nii, .nii.gz), or time points x regions (.csv, .npy)
  /// Mask on the same grid, whose voxels other than 0 are used; empty: the voxels that vary.
  std::filesystem::path mask;
  int64_t delay = 2;                      ///< volumes from a stimulus to its response
  std::string detrend = "linear";         ///< none | mean | linear: trend that is subtracted from every run
  double repetition_time = 0;             ///< seconds from volume to volume; 0: the file's value
  std::filesystem::path texts;            ///< one line for each volume: label, run; empty: one run without words
  std::filesystem::path text_embeddings;  ///< safetensors file with a vector for each label
  std::filesystem::path videos;           ///< one film of the whole series, or a folder with one clip for each label
  /// Precomputed .npy files with n rows a volume, instead of text_embeddings, sound and pictures.
  std::filesystem::path text_features, audio_features, pictures;
};

/// Section `data` of a job file. `data.type: text` cuts text files into windows of tokens. `synthetic` makes random
/// inputs of the model's shapes. Every other type reads files of recorded data and has its own configuration.
struct DataConfig {
  std::string type = "text";
  int64_t samples = 256;       ///< synthetic: number of different samples
  std::filesystem::path root;  ///< folder that relative paths of data start from; itself relative to the job file
  std::vector<std::filesystem::path> files;  ///< paths relative to the root
  bool skip_bad = false;                     ///< files that cannot be read are skipped and counted
  /// Largest number of bytes of host memory for data files; empty: the limits of each format.
  std::optional<int64_t> memory_budget;
  bool memory_of_process = false;  ///< memory_budget is what the process budget leaves; no key sets it
  SeriesConfig series;
  SlicesConfig slices;
  PicturesConfig pictures;
  ClipsConfig clips;
  StimuliConfig stimuli;
  std::string tokenizer = "bytes";  ///< bytes | gpt2 | sentencepiece | gguf | huggingface
  /// gpt2: a tiktoken rank file; sentencepiece: a .model file; gguf: a model's; huggingface: a tokenizer.json
  std::filesystem::path tokenizer_file;
  int64_t sequence_length = 512;      ///< tokens of a window
  double validation_fraction = 0.05;  ///< [0, 0.5]: the end of the text, held out for evaluation
  /// Slices, pictures, series, stimuli; [0, 0.5]: held out in addition to validation, disjoint from it.
  double test_fraction = 0;
  std::string evaluate_on = "validation";  ///< validation | test: part of the data for evaluations and baselines
  /// Decision of a program, which no key makes: true: evaluations run, false: none runs; empty: the fractions and files
  /// decide.
  std::optional<bool> evaluated;
  /// Returns true if evaluations run: by `evaluated`, else if a fraction or files give the held-out part that they use.
  bool is_evaluated() const {
    if (evaluated) return *evaluated;
    const bool test = evaluate_on == "test";
    return (test ? test_fraction : validation_fraction) > 0 ||
           !(test ? series.test_files : series.validation_files).empty();
  }
  bool shuffle = true;
  int64_t num_workers = 1;          ///< threads that prepare batches; they run until the end
  int64_t prefetch = 4;             ///< batches prepared ahead
  std::filesystem::path cache_dir;  ///< folder of token files; default: .plimsoll-cache next to the job file
};

}  // namespace plimsoll
