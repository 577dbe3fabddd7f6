// Declares where samples come from: section `data` of a job file, with a configuration for each `data.type`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

/// `data.type: series`: sequences of vectors with a class each, in .ts, .csv, .npy and .npz files (data.files).
struct SeriesConfig {
  /// Held out whole; empty: the share data.validation_fraction of the series of data.files.
  std::vector<std::filesystem::path> validation_files;
  /// Held out whole for the test; empty: the share data.test_fraction of the series of data.files.
  std::vector<std::filesystem::path> test_files;
  /// For .npy files, which hold no classes: a .npy file of classes for each of data.files, validation_files,
  /// test_files.
  std::vector<std::filesystem::path> labels, validation_labels, test_labels;
  int64_t length = 100;                 ///< vectors of a series
  double train_ratio_of_vectors = 1.0;  ///< (0, 1]: how many of them a sample has
  bool pad = false;                     ///< shorter series and missing values are filled up with the mean
  std::string order = "time";           ///< time | hilbert
  int64_t hilbert_bits = 8;             ///< of each coordinate of the curve
  std::vector<int64_t> hilbert_axes;    ///< channels that are coordinates of the curve, -1: time; empty: time and all
  /// Vectors of a sample.
  int64_t vectors() const {
    return std::max<int64_t>(1, std::llround(static_cast<double>(length) * train_ratio_of_vectors));
  }
};

/// `data.type: slices`: slices of volumes with anatomical labels, in NIfTI files (data.files). A sample is a slice and
/// a structure that it shows: the image, a prompt that names the structure, its mask.
struct SlicesConfig {
  std::vector<std::filesystem::path> labels;    ///< a file for each of data.files, on the same grid
  std::filesystem::path label_names;            ///< lines of a label's number and its name
  std::vector<std::string> structures = {"*"};  ///< globs of the names that are asked for
  std::string axis = "z";                       ///< x | y | z: slices lie across it
  int64_t min_pixels = 16;                      ///< of a mask, at the model's image_size, to be a sample
  int64_t validation_block = 6;                 ///< neighbouring slices that are held out together
  int64_t validation_gap = 2;                   ///< slices on either side of them that are not used at all
  double augment = 0;                           ///< [0, 0.5]: how far slices trained on are moved, scaled and turned
  std::string prompt = "Segment the {}.";       ///< {} is the structure's name
  std::string answer = " It is here:";          ///< what the language model is to go on with
};

/// `data.type: pictures`: pictures and masks in PNG and JPEG files. A sample is a picture and a structure that its
/// masks show. Names, prompts, augmentation and min_pixels are SlicesConfig's.
struct PicturesConfig {
  std::filesystem::path images, masks;  ///< folders; a picture's mask has its name
  std::filesystem::path list;         ///< CSV or JSON lines: picture, mask and more of each sample; empty: the folders
  std::string normalise = "picture";  ///< picture: mean 0 and deviation 1 each; imagenet: by that data set's figures
};

/// `data.type: clips`: clips of video files (data.files, or those of a list) with a caption each.
struct ClipsConfig {
  std::filesystem::path list;               ///< lines "path TAB caption [TAB start TAB end]"; empty: data.files
  std::optional<int64_t> max_frames = 100;  ///< pictures of a clip, evenly spaced; empty: all, at kClipFrameRate
  double clip_seconds = 4;
  double clip_stride = 0;  ///< seconds from one clip's start to the next's, in what is trained on; 0: clip_seconds
  std::string prompt = "Describe the video: ";  ///< before the caption; not learned
};

/// Pictures a second where all are wanted, and the most of a clip: a step's shapes must be known before its data are.
constexpr double kClipFrameRate = 30;
constexpr int64_t kMostClipFrames = 4096;

/// Pictures of every clip; at most kMostClipFrames.
int64_t frames_of_clip(const ClipsConfig& config);

/// `data.type: stimuli`: volumes of an fMRI series, and what was seen, heard and read before each.
struct StimuliConfig {
  std::filesystem::path fmri;             ///< NIfTI (.nii, .nii.gz), or time points x regions (.csv, .npy)
  std::filesystem::path mask;             ///< of the same grid: its voxels that are not 0; empty: those that vary
  int64_t delay = 2;                      ///< volumes from a stimulus to its response
  std::string detrend = "linear";         ///< none | mean | linear: what is taken out of every run
  double repetition_time = 0;             ///< seconds from volume to volume; 0: as the file says
  std::filesystem::path texts;            ///< a line a volume: label, run; empty: one run without words
  std::filesystem::path text_embeddings;  ///< safetensors: a vector for each label
  std::filesystem::path videos;           ///< a film of the whole series, or a folder with a clip for each label
  /// Computed already, .npy files of n rows a volume, in place of text_embeddings, sound and pictures.
  std::filesystem::path text_features, audio_features, pictures;
};

/// Section `data` of a job file. `data.type: text`: files of text cut into windows of tokens. `synthetic`: random
/// inputs of the model's shapes. Every other type reads files of recorded data and has a configuration of its own.
struct DataConfig {
  std::string type = "text";
  int64_t samples = 256;       ///< synthetic: how many different ones there are
  std::filesystem::path root;  ///< the folder that relative paths of data start from; relative to the job file
  std::vector<std::filesystem::path> files;  ///< relative to the root
  bool skip_bad = false;                     ///< files that cannot be read are left out and counted
  /// Upper limit in bytes of the host memory that files of data take; none: the bounds of each format.
  std::optional<int64_t> memory_budget;
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
  /// Slices, pictures, series, stimuli; [0, 0.5]: held out as well, and apart from validation.
  double test_fraction = 0;
  std::string evaluate_on = "validation";  ///< validation | test: the part that evaluations and baselines look at
  /// Returns true if there is a held-out part that evaluations look at.
  bool is_evaluated() const {
    const bool test = evaluate_on == "test";
    return (test ? test_fraction : validation_fraction) > 0 ||
           !(test ? series.test_files : series.validation_files).empty();
  }
  bool shuffle = true;
  int64_t num_workers = 1;          ///< threads that prepare batches; they persist
  int64_t prefetch = 4;             ///< batches prepared ahead
  std::filesystem::path cache_dir;  ///< where token files are kept; default: .plimsoll-cache beside the job file
};

}  // namespace plimsoll
