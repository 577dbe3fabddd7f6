#include "data/masks/picture_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "data/masks/mask_source.h"
#include "data/masks/picture_list.h"
#include "data/masks/picture_plane.h"
#include "data/masks/slice_samples.h"
#include "data/parts.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "files/picture.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kKeptBytes = size_t{256} << 20;

/// A cache of planes read from files, bounded in bytes.
template <typename Plane>
class Kept {
 public:
  /// Keeps at most `room` bytes.
  explicit Kept(size_t room) : room_(room) {}

  template <typename Read>
  std::shared_ptr<const Plane> get(const std::filesystem::path& file, const Read& read) const {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = planes_.find(file); found != planes_.end()) return found->second;
    }
    const auto plane = std::make_shared<const Plane>(read());  // two threads may read the same file
    const std::scoped_lock lock(mutex_);
    if (bytes_ + bytes_of(*plane) <= room_ && planes_.emplace(file, plane).second) bytes_ += bytes_of(*plane);
    return plane;
  }

  size_t room() const { return room_; }
  /// Returns the number of cached planes, and their bytes.
  std::pair<size_t, size_t> kept() const {
    const std::scoped_lock lock(mutex_);
    return {planes_.size(), bytes_};
  }

 private:
  static size_t bytes_of(const PicturePlane& plane) { return plane.values.size() * sizeof(float); }
  static size_t bytes_of(const MaskPlane& plane) { return plane.numbers.size() * sizeof(uint16_t); }

  mutable std::mutex mutex_;
  mutable std::map<std::filesystem::path, std::shared_ptr<const Plane>> planes_;
  mutable size_t bytes_ = 0;
  size_t room_;
};

/// Bounds in bytes for the cached planes of pictures, and for those of masks.
size_t room_for_kept(const DataConfig& config) {
  return std::min(kKeptBytes,
                  static_cast<size_t>(config.memory_budget.value_or(std::numeric_limits<int64_t>::max())) / 2) /
         2;
}

struct PictureSample {
  size_t task = 0;
  size_t prompt = 0;  // index into prompts_
};

class PictureSamples final : public MaskSource<PictureSample> {
 public:
  PictureSamples(const DataConfig& config, const SliceShape& shape, const Tokenizer& tokenizer,
                 const std::function<void(double)>& progress, uint64_t seed)
      : MaskSource(shape, config.slices.augment, seed, 0x70696374u),
        normalize_(config.pictures.normalize),
        seed_(seed),
        budget_(config.memory_budget),
        of_process_(config.memory_of_process),
        readers_(std::max<int64_t>(1, config.num_workers) + 1),
        tasks_(picture_tasks(config)),
        pictures_(room_for_kept(config)),
        masks_(room_for_kept(config)) {
    find_samples(config, tokenizer, progress);
  }

  /// Pictures have as many pixels as their masks, which are cached already.
  int64_t bytes_later() const override {
    const auto [masks, bytes] = masks_.kept();
    if (masks == 0) return static_cast<int64_t>(pictures_.room());
    const size_t of_picture = bytes / masks / sizeof(uint16_t) * sizeof(float) * static_cast<size_t>(shape_.channels);
    return static_cast<int64_t>(std::min(pictures_.room(), of_picture * images_));
  }

  std::string name_of(Split split, int64_t index) const override {
    return tasks_[of(split)[static_cast<size_t>(index)].task].image.string();
  }

 private:
  void put(const PictureSample& sample, const SliceView* view, std::span<float> image,
           std::span<uint8_t> mask) const override {
    const SliceView seen = view != nullptr ? *view : SliceView{};
    show(*picture_of(sample), shape_.image_size, seen, image);
    const PictureTask& task = tasks_[sample.task];
    const auto plane = mask_of(task);
    std::ranges::fill(mask, uint8_t{0});
    each_number(*plane, shape_.image_size, seen, [&](int64_t pixel, uint16_t number) {
      mask[static_cast<size_t>(pixel)] = belongs(task, *plane, number) ? 1 : 0;
    });
  }
  const SlicePrompt& prompt_of(const PictureSample& sample) const override { return prompts_[sample.prompt]; }

  /// Returns true if pixels of the mask with this value belong to the task's structure.
  static bool belongs(const PictureTask& task, const MaskPlane& mask, uint16_t number) {
    return task.value ? number == *task.value : number > mask.threshold;
  }

  /// Half of the budget is for cached planes; the threads that may read share the other half.
  template <typename Read>
  auto with_budget(const Read& read) const {
    DataMemory memory(budget_, budget_ ? *budget_ - *budget_ / 2 / readers_ : 0, of_process_);
    const DataMemory::Scope scope(memory);
    return read();
  }

  std::shared_ptr<const PicturePlane> picture_of(const PictureSample& sample) const {
    const PictureTask& task = tasks_[sample.task];
    return pictures_.get(task.image, [&] {
      return with_budget([&] { return read_plane(task.image, shape_.image_size, shape_.channels, normalize_); });
    });
  }
  std::shared_ptr<const MaskPlane> mask_of(const PictureTask& task) const {
    return masks_.get(task.mask, [&] { return with_budget([&] { return read_mask(task.mask, shape_.image_size); }); });
  }

  void find_samples(const DataConfig& config, const Tokenizer& tokenizer, const std::function<void(double)>& progress) {
    std::map<std::string, int32_t> known_labels;
    std::vector<std::string> label_names;
    std::map<std::filesystem::path, std::vector<int32_t>> labels;  // structures that each picture shows
    const std::map<std::filesystem::path, std::string> listed = listed_splits();
    const std::vector<size_t> shown = shown_tasks(config, progress);
    for (const size_t i : shown) {
      const PictureTask& task = tasks_[i];
      std::vector<int32_t>& of_picture = labels[task.image];
      if (task.structure.empty() && !task.value) continue;  // prompts may differ for each picture
      const std::string name = task.structure.empty() ? fmt::format("value {}", *task.value) : task.structure;
      const auto [found, fresh] = known_labels.emplace(name, static_cast<int32_t>(label_names.size()));
      if (fresh) label_names.push_back(name);
      if (std::ranges::find(of_picture, found->second) == of_picture.end()) of_picture.push_back(found->second);
    }
    const std::map<std::filesystem::path, DataPart> split = splits(config, listed, labels);
    images_ = labels.size();
    std::map<std::pair<std::string, std::string>, size_t> known_prompts;
    const DataPart evaluated = config.evaluate_on == "test" ? DataPart::test : DataPart::validation;
    PartLabels in_parts({.samples = "pictures", .label = "structure"});
    for (const auto& [image, of_picture] : labels) in_parts.add(split.at(image), of_picture);
    note_parts(in_parts, label_names, config.pictures.list.empty() ? config.pictures.masks : config.pictures.list);
    never_trained_ = in_parts.never_trained(evaluated, label_names);
    for (const size_t i : shown) {
      const PictureTask& task = tasks_[i];
      const DataPart part = split.at(task.image);
      if (part != DataPart::train && part != evaluated) continue;
      PictureSample sample{.task = i};
      const std::string prompt = task.prompt.empty() ? config.slices.prompt : task.prompt;
      const std::string answer = task.answer.empty() ? config.slices.answer : task.answer;
      const auto [found, fresh] =
          known_prompts.emplace(std::pair(prompt + '\0' + answer, task.structure), prompts_.size());
      if (fresh) prompts_.push_back(make_slice_prompt(prompt, answer, task.structure, shape_.prompt_length, tokenizer));
      sample.prompt = found->second;
      (part == DataPart::train ? train_ : held_out_).push_back(sample);
    }
    if (train_.empty() && held_out_.empty())
      throw UserError(fmt::format("no mask shows {} pixels of any of data.structures at model.image_size {}{}",
                                  config.slices.min_pixels, shape_.image_size,
                                  skipped_.empty() ? "; lower data.min_pixels" : ": " + skipped_.front()));
    if (train_.empty())
      throw UserError("all pictures are held out; lower data.validation_fraction or data.test_fraction");
    // An evaluation of only the first few samples covers all structures.
    std::ranges::sort(held_out_, {}, [](const PictureSample& sample) { return mix64(sample.task); });
  }

  /// Returns the tasks whose masks have enough pixels.
  std::vector<size_t> shown_tasks(const DataConfig& config, const std::function<void(double)>& progress) {
    std::set<std::filesystem::path> bad;
    std::map<std::filesystem::path, PictureSides> sides;
    std::set<std::pair<std::filesystem::path, std::filesystem::path>> compared;  // images with their masks
    std::shared_ptr<const MaskPlane> mask;
    std::vector<size_t> shown;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const PictureTask& task = tasks_[i];
      if (progress && i % 16 == 0) progress(static_cast<double>(i) / static_cast<double>(tasks_.size()));
      if (bad.contains(task.mask)) continue;
      try {
        if (i == 0 || !mask || task.mask != tasks_[i - 1].mask) mask = mask_of(task);
        if (!sides.contains(task.image)) {
          sides[task.image] = validate_picture(task.image);
          for (const std::string& note : sides[task.image].notes) note_data(task.image, note);
        }
        if (compared.emplace(task.image, task.mask).second) note_orientation(task, sides[task.image], *mask);
        check_same_size(task, sides[task.image], *mask);
        if (pixels_of(task, *mask) >= config.slices.min_pixels) shown.push_back(i);
      } catch (const UserError& error) {
        if (!config.skip_bad) throw;
        skipped_.emplace_back(error.what());
        bad.insert(task.mask);
        mask.reset();
      }
    }
    return shown;
  }

  // A mask that was drawn on the stored pixels has their sides, which a check can see only if the two sides differ.
  static void note_orientation(const PictureTask& task, const PictureSides& picture, const MaskPlane& mask) {
    if (picture.orientation == mask.orientation) return;
    note_data(task.image,
              fmt::format("the orientation of the picture (EXIF) is {}, and that of its mask is {}; both are "
                          "applied: the mask must lie on the picture as it is seen",
                          picture.orientation, mask.orientation));
  }

  static void check_same_size(const PictureTask& task, const PictureSides& picture, const MaskPlane& mask) {
    if (mask.full_width == picture.width && mask.full_height == picture.height) return;
    const bool turned = picture.orientation != mask.orientation && mask.full_width == picture.height &&
                        mask.full_height == picture.width;
    throw UserError(
        fmt::format(
            "{} is {} x {} pixels, and its mask {} is {} x {}; they must be of one size{}", task.image.string(),
            picture.width, picture.height, task.mask.string(), mask.full_width, mask.full_height,
            turned ? fmt::format(". The orientation of the picture (EXIF) is {}, and that of the mask is {}: write "
                                 "the same orientation into both, or turn the pixels of both",
                                 picture.orientation, mask.orientation)
                   : ""),
        UserError::Kind::failure);
  }

  int64_t pixels_of(const PictureTask& task, const MaskPlane& mask) const {
    if (task.value && !mask.exact)
      throw UserError(
          fmt::format("{} is a JPEG, which changes the numbers that say what structure a pixel shows; save masks as "
                      "PNG, or one mask for each structure",
                      task.mask.string()),
          UserError::Kind::failure);
    int64_t pixels = 0;
    each_number(mask, shape_.image_size, {}, [&](int64_t, uint16_t number) { pixels += belongs(task, mask, number); });
    return pixels;
  }

  /// Returns the list's split of each picture; "" if it has none.
  std::map<std::filesystem::path, std::string> listed_splits() const {
    std::map<std::filesystem::path, std::string> listed;
    for (const PictureTask& task : tasks_) {
      std::string& part = listed[task.image];
      if (!part.empty() && part != task.split)
        throw UserError(fmt::format("{}: {} is of split {} here, and of {} before; a picture is trained on or held out",
                                    task.place, task.image.string(), in_quotes(task.split), in_quotes(part)));
      part = task.split;
    }
    return listed;
  }

  /// Returns the part of the data of each picture. `labels`: the structures that pictures show.
  std::map<std::filesystem::path, DataPart> splits(
      const DataConfig& config, const std::map<std::filesystem::path, std::string>& listed,
      const std::map<std::filesystem::path, std::vector<int32_t>>& labels) const {
    using Picture = std::pair<const std::filesystem::path, std::string>;
    std::vector<std::pair<uint64_t, const Picture*>> open;
    for (const Picture& picture : listed)
      if (picture.second.empty()) open.emplace_back(mix64(hash_bytes(picture.first.filename().string())), &picture);
    std::ranges::sort(open, [](const auto& a, const auto& b) {
      return std::pair(a.first, a.second->first) < std::pair(b.first, b.second->first);
    });
    const auto share = [&](double fraction) {
      const auto count = static_cast<double>(open.size());
      return fraction > 0 && count > 1 ? std::max<size_t>(1, static_cast<size_t>(std::lround(fraction * count))) : 0;
    };
    const size_t tests = share(config.test_fraction), held_out = tests + share(config.validation_fraction);
    LabeledItems items;
    std::vector<const std::filesystem::path*> images;
    std::vector<DataPart> parts;
    std::vector<bool> may_move;
    const auto add = [&](const std::filesystem::path& image, DataPart part, bool moves) {
      const auto found = labels.find(image);
      items.add(found == labels.end() ? std::span<const int32_t>() : found->second);
      images.push_back(&image);
      parts.push_back(part);
      may_move.push_back(moves);
    };
    // In the order of their names' hashes: with_every_label() is then independent of the order of the list.
    for (size_t i = 0; i < open.size(); ++i)
      add(open[i].second->first,
          i < tests      ? DataPart::test
          : i < held_out ? DataPart::validation
                         : DataPart::train,
          true);
    for (const Picture& picture : listed)
      if (!picture.second.empty())
        add(picture.first,
            picture.second == "test"         ? DataPart::test
            : picture.second == "validation" ? DataPart::validation
                                             : DataPart::train,
            false);
    parts = with_every_label(items, parts, may_move, seed_);
    std::map<std::filesystem::path, DataPart> split;
    for (size_t i = 0; i < images.size(); ++i) split.emplace(*images[i], parts[i]);
    return split;
  }

  std::string normalize_;
  uint64_t seed_;
  std::optional<int64_t> budget_;
  bool of_process_;
  int64_t readers_;  // threads that may read at the same time: the workers and the evaluating thread
  std::vector<PictureTask> tasks_;
  Kept<PicturePlane> pictures_;
  Kept<MaskPlane> masks_;
  size_t images_ = 0;
};

}  // namespace

std::unique_ptr<SampleSource> picture_samples(const DataConfig& config, const SliceShape& shape,
                                              const Tokenizer& tokenizer, const std::function<void(double)>& progress,
                                              uint64_t seed) {
  return std::make_unique<PictureSamples>(config, shape, tokenizer, progress, seed);
}

}  // namespace plimsoll
