#include "data/masks/picture_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "base/file_error.h"
#include "base/json.h"
#include "base/names.h"
#include "base/text.h"
#include "data/masks/label_names.h"
#include "files/csv_file.h"
#include "files/file_kind.h"
#include "files/picture.h"
#include "files/text_file.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTasks = 10'000'000;
constexpr size_t kMaxLineLength = size_t{1} << 20;
constexpr std::string_view kColumns[] = {"image", "mask", "structure", "value", "prompt", "answer", "split"};

/// Lists the pictures of a folder by name without extension, and the folders in it.
struct Listing {
  std::map<std::string, fs::path> pictures;
  std::vector<fs::path> folders;
  std::vector<std::string> others;  // names of files that are no pictures
};

void note_others(const fs::path& folder, std::vector<std::string> others) {
  if (others.empty()) return;
  std::ranges::sort(others);
  note_data(folder, fmt::format("files that are not read, which are no .png, .jpg or .jpeg: {}", few_names(others)));
}

Listing listing_of(const char* key, const fs::path& folder) {
  Listing listing;
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw UserError(
        fmt::format("{}: {} is not a folder; name the folder that the pictures lie in", key, folder.string()));
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename().string().starts_with('.')) continue;
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) listing.folders.push_back(path);
    if (!fs::is_regular_file(path, ignored)) continue;
    if (!is_picture_file(path)) {
      listing.others.push_back(path.filename().string());
      continue;
    }
    const auto [other, fresh] = listing.pictures.emplace(path.stem().string(), path);
    if (!fresh)
      throw UserError(
          fmt::format("{}: {} and {} have one name; leave one", key, other->second.string(), path.string()));
  }
  if (error) throw_file_error("read", folder, error.value());
  std::ranges::sort(listing.folders);
  note_others(folder, listing.others);
  return listing;
}

/// Returns the mask of a picture by its name. A picture is no mask of itself, if one folder has both.
const fs::path* mask_of(const std::string& stem, const fs::path& image, const Listing& masks) {
  std::error_code error;
  for (const char* ending : {"", "_mask", "_masks", "_seg", "_segmentation", "_label"})
    if (const auto found = masks.pictures.find(stem + ending);
        found != masks.pictures.end() && !fs::equivalent(image, found->second, error))
      return &found->second;
  return nullptr;
}

std::string with_blanks(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

class Tasks {
 public:
  explicit Tasks(const DataConfig& config) : config_(config) {
    const SlicesConfig& slices = config.slices;
    if (!slices.label_names.empty())
      names_ = matching(read_label_names(slices.label_names), slices.structures, slices.label_names);
  }

  std::vector<PictureTask> of_folders() {
    const PicturesConfig& pictures = config_.pictures;
    const Listing images = listing_of("data.images", pictures.images), masks = listing_of("data.masks", pictures.masks);
    if (images.pictures.empty())
      throw UserError(fmt::format("data.images: {} has no pictures (.png, .jpg, .jpeg)", pictures.images.string()));
    if (masks.pictures.empty() && !masks.folders.empty())
      of_structure_folders(images, masks);
    else
      of_one_folder(images, masks);
    return std::move(tasks_);
  }

  std::vector<PictureTask> of_list() {
    const fs::path& list = config_.pictures.list;
    if (const std::string extension = list.extension().string(); extension == ".jsonl" || extension == ".json")
      of_json_lines(list);
    else
      of_table(list);
    if (tasks_.empty())
      throw UserError(fmt::format("data.list: {} has no line for any of data.structures ({})", list.string(),
                                  fmt::join(config_.slices.structures, ", ")));
    return std::move(tasks_);
  }

 private:
  void add(PictureTask task) {
    if (tasks_.size() == kMaxTasks) throw UserError(fmt::format("there are more than {} samples", kMaxTasks));
    tasks_.push_back(std::move(task));
  }
  bool is_requested(const std::string& name) const {
    return std::ranges::any_of(config_.slices.structures,
                               [&](const std::string& pattern) { return matches_path(pattern, name); });
  }
  void add_names(const PictureTask& task) {
    for (const LabelName& label : names_) {
      PictureTask one = task;
      one.value = label.number;
      one.structure = label.name;
      add(std::move(one));
    }
  }

  void of_structure_folders(const Listing& images, const Listing& masks) {
    for (const fs::path& folder : masks.folders) {
      const std::string name = with_blanks(folder.filename().string());
      if (!is_requested(name)) continue;
      const Listing own = listing_of("data.masks", folder);
      for (const auto& [stem, image] : images.pictures)
        if (const fs::path* mask = mask_of(stem, image, own))
          add({.image = image, .mask = *mask, .structure = name, .place = mask->string()});
    }
    if (tasks_.empty())
      throw UserError(
          fmt::format("data.masks: no folder in {} that data.structures names has a mask of any picture in "
                      "{}; a mask is called as its picture is",
                      config_.pictures.masks.string(), config_.pictures.images.string()));
  }

  void of_one_folder(const Listing& images, const Listing& masks) {
    std::set<fs::path> surplus;
    for (const auto& [stem, mask] : masks.pictures) surplus.insert(mask);
    for (const auto& [stem, image] : images.pictures) {
      const fs::path* mask = mask_of(stem, image, masks);
      if (mask) surplus.erase(*mask);
      if (!mask) {
        if (config_.skip_bad) continue;
        throw UserError(
            fmt::format("data.masks: {} has no mask of {} ({}.png, {}_mask.png, ...); data.skip_bad: true "
                        "leaves such pictures out",
                        config_.pictures.masks.string(), image.string(), stem, stem));
      }
      const PictureTask task{.image = image, .mask = *mask, .place = mask->string()};
      if (!names_.empty()) {
        add_names(task);
      } else {
        add(task);
        tasks_.back().structure = only_structure();
      }
    }
    if (tasks_.empty())
      throw UserError(fmt::format("data.masks: {} has no mask of any picture in {}", config_.pictures.masks.string(),
                                  config_.pictures.images.string()));
    std::vector<std::string> names;
    for (const fs::path& mask : surplus) names.push_back(mask.filename().string());
    if (!names.empty())
      note_data(config_.pictures.masks, fmt::format("masks without a picture are not read: {}", few_names(names)));
  }

  const std::string& only_structure() const {
    const std::vector<std::string>& names = config_.slices.structures;
    if (names.size() != 1 || names[0].find_first_of("*?[") != std::string::npos)
      throw UserError(
          "data.structures must name what masks show, for example data.structures: nucleus; or data.label_names "
          "what each of their numbers is");
    return names[0];
  }

  void of_table(const fs::path& list) {
    CsvFile table(list);
    std::vector<std::string> names, cells;
    const auto refuse = [&](const std::string& what) { throw UserError(fmt::format("{}: {}", table.place(), what)); };
    if (!table.next(names)) throw UserError(fmt::format("data.list: {} is empty", list.string()));
    const bool has_index = names.size() > 1 && names[0].empty();
    IndexColumn index;
    for (const std::string& name : names)
      if (!(has_index && &name == &names[0]) && std::ranges::find(kColumns, name) == std::end(kColumns))
        refuse(fmt::format("{} is no column of a list; the first line names its columns, of: {}", in_quotes(name),
                           fmt::join(kColumns, ", ")));
    while (table.next(cells)) {
      if (cells.size() != names.size())
        refuse(fmt::format("the line has {} cells, and the first line names {}", cells.size(), names.size()));
      if (has_index && !index.add(cells[0]))
        refuse(
            fmt::format("{} is in the first column, which has no name and does not count as an index does; name the "
                        "column, or remove it",
                        in_quotes(cells[0])));
      std::map<std::string, std::string> fields;
      for (size_t i = has_index ? 1 : 0; i < cells.size(); ++i) fields[names[i]] = cells[i];
      of_fields(fields, list, table.place());
    }
    if (has_index)
      note_data(list, fmt::format("the first column has no name and {}; it is left out as an index", index.describe()));
  }

  void of_json_lines(const fs::path& list) {
    TextLines lines(list, "list of pictures", kMaxLineLength, UserError::Kind::usage);
    for (std::string line; lines.next(line);) {
      if (trimmed(line).empty()) continue;
      const std::string place = lines.place();
      std::map<std::string, std::string> fields;
      const nlohmann::json object = parse_json_object(line, place);
      for (const auto& [name, value] : object.items()) {
        if (std::ranges::find(kColumns, name) == std::end(kColumns))
          throw UserError(fmt::format("{}: {} is no field of a list; it has: {}", place, in_quotes(name),
                                      fmt::join(kColumns, ", ")));
        if (!value.is_string() && !value.is_number_integer())
          throw UserError(fmt::format("{}: {} is neither a text nor a whole number", place, name));
        fields[name] = value.is_string() ? value.get<std::string>() : value.dump();
      }
      of_fields(fields, list, place);
    }
  }

  void of_fields(const std::map<std::string, std::string>& fields, const fs::path& list, const std::string& place) {
    const auto text = [&](const char* name) {
      const auto found = fields.find(name);
      return found == fields.end() ? std::string() : found->second;
    };
    const auto refuse = [&](const std::string& what) { throw UserError(fmt::format("{}: {}", place, what)); };
    PictureTask task{.image = text("image"),
                     .mask = text("mask"),
                     .structure = text("structure"),
                     .prompt = text("prompt"),
                     .answer = text("answer"),
                     .split = text("split"),
                     .place = place};
    for (auto& [path, name] : {std::pair{&task.image, "image"}, {&task.mask, "mask"}}) {
      if (path->empty() || path->string().find('\0') != std::string::npos) refuse(fmt::format("it has no {}", name));
      *path = list.parent_path() / *path;
    }
    if (!task.split.empty() && task.split != "train" && task.split != "validation" && task.split != "test")
      refuse(fmt::format("split is {}; it is train, validation or test, or empty", in_quotes(task.split)));
    if (const std::string value = text("value"); !value.empty()) {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (error != std::errc() || end != value.data() + value.size() || number < 0 || number > 65535)
        refuse(fmt::format("value is {}; it is a mask's number, from 0 to 65535", in_quotes(value)));
      task.value = number;
    }
    if (task.structure.empty() && task.prompt.empty() && !task.value && !names_.empty()) return add_names(task);
    if (task.structure.empty() && task.prompt.empty())
      refuse("it has neither structure nor prompt, and data.label_names does not say what a mask's numbers are");
    if (!task.structure.empty() && !is_requested(task.structure)) return;
    add(std::move(task));
  }

  const DataConfig& config_;
  std::vector<LabelName> names_;
  std::vector<PictureTask> tasks_;
};

}  // namespace

bool is_picture_file(const fs::path& file) {
  std::string extension = file.extension().string();
  std::ranges::transform(extension, extension.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

std::vector<PictureTask> picture_tasks(const DataConfig& config) {
  Tasks tasks(config);
  return config.pictures.list.empty() ? tasks.of_folders() : tasks.of_list();
}

namespace {

// Mean and standard deviation of ImageNet's pictures, as parts of full brightness (red, green, blue), by which models
// trained on ImageNet normalize.
constexpr std::array<double, 3> kImageNetMean = {0.485, 0.456, 0.406}, kImageNetDeviation = {0.229, 0.224, 0.225};
constexpr std::array<double, 3> kLuma = {0.299, 0.587, 0.114};  // ITU-R BT.601

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw UserError(fmt::format("{}: {}", file.string(), what), UserError::Kind::failure);
}

/// Returns a plane with the sizes of the reduced picture: a pixel of the square covers at most two of its pixels along
/// each axis.
template <typename Plane>
Plane plane_of(const Picture& picture, int64_t size) {
  Plane plane;
  plane.full_width = picture.width;
  plane.full_height = picture.height;
  const int64_t longer = std::max(picture.width, picture.height), shorter = std::min(picture.width, picture.height);
  plane.reduced = std::clamp<int64_t>(longer / size, 1, shorter);
  plane.width = (picture.width + plane.reduced - 1) / plane.reduced;
  plane.height = (picture.height + plane.reduced - 1) / plane.reduced;
  return plane;
}

/// Refuses a mask whose transparency says more than its numbers do: transparent pixels are those of number 0, if any.
void check_transparency(const Picture& mask, const std::filesystem::path& file) {
  const auto channels = static_cast<size_t>(mask.channels);
  for (size_t i = 0; i < mask.alpha.size(); ++i) {
    const uint16_t* pixel = mask.numbers.data() + i * channels;
    const bool none = std::all_of(pixel, pixel + channels, [](uint16_t number) { return number == 0; });
    if (mask.alpha[i] == (none ? 0 : mask.max_value)) continue;
    const auto width = static_cast<size_t>(mask.width);
    refuse(file,
           fmt::format("is a mask with transparent pixels that are not those of number 0 (column {}, row {}: number "
                       "{}, alpha {} of {}); save it without transparency, with a number for each structure",
                       i % width, i / width, *pixel, mask.alpha[i], mask.max_value));
  }
}

}  // namespace

PicturePlane read_plane(const std::filesystem::path& file, int64_t size, int64_t channels,
                        const std::string& normalize) {
  check(channels == 1 || channels == 3, "pictures have 1 or 3 channels");
  const Picture picture = on_white(read_picture(file));
  auto plane = plane_of<PicturePlane>(picture, size);
  plane.channels = channels;
  plane.values.resize(static_cast<size_t>(plane.width * plane.height * channels));
  const auto has = static_cast<size_t>(picture.channels);
  const auto whole = static_cast<double>(picture.max_value);
  const auto part = [&](int64_t column, int64_t row, size_t channel) {
    const uint16_t* pixel = picture.numbers.data() + static_cast<size_t>(row * picture.width + column) * has;
    if (has == 1) return pixel[0] / whole;
    if (channels == 3) return pixel[channel] / whole;
    return (kLuma[0] * pixel[0] + kLuma[1] * pixel[1] + kLuma[2] * pixel[2]) / whole;
  };
  float* to = plane.values.data();
  for (int64_t r = 0; r < plane.height; ++r)
    for (int64_t c = 0; c < plane.width; ++c)
      for (size_t channel = 0; channel < static_cast<size_t>(channels); ++channel) {
        const int64_t right = std::min(picture.width, (c + 1) * plane.reduced);
        const int64_t below = std::min(picture.height, (r + 1) * plane.reduced);
        double sum = 0, count = 0;
        for (int64_t row = r * plane.reduced; row < below; ++row)
          for (int64_t column = c * plane.reduced; column < right; ++column) sum += part(column, row, channel), ++count;
        *to++ = static_cast<float>(sum / count);
      }
  std::array<double, 3> mean = {}, deviation = {1, 1, 1};
  if (normalize == "imagenet") {
    mean = kImageNetMean, deviation = kImageNetDeviation;
    if (channels == 1) mean[0] = (mean[0] + mean[1] + mean[2]) / 3, deviation[0] = kImageNetDeviation[1];
  } else {
    const auto numbers = static_cast<double>(plane.values.size());
    double sum = 0, squares = 0;
    for (const float value : plane.values) sum += value;
    for (const float value : plane.values) squares += (value - sum / numbers) * (value - sum / numbers);
    mean.fill(sum / numbers);
    // A picture of one color becomes 0: sums of up to 2^29 equal float32 values are exact in float64.
    deviation.fill(squares > 0 ? std::sqrt(squares / numbers) : 1);
  }
  for (size_t i = 0; i < plane.values.size(); ++i) {
    const size_t channel = i % static_cast<size_t>(channels);
    plane.values[i] = static_cast<float>((plane.values[i] - mean[channel]) / deviation[channel]);
  }
  return plane;
}

MaskPlane read_mask(const std::filesystem::path& file, int64_t size) {
  const Picture picture = read_picture(file);
  check_transparency(picture, file);
  auto plane = plane_of<MaskPlane>(picture, size);
  plane.orientation = picture.orientation;
  plane.exact = picture.exact;
  plane.threshold = static_cast<uint16_t>(picture.exact ? 0 : picture.max_value / 2);
  const auto has = static_cast<size_t>(picture.channels);
  plane.numbers.resize(static_cast<size_t>(plane.width * plane.height));
  uint16_t* to = plane.numbers.data();
  for (int64_t r = 0; r < plane.height; ++r)
    for (int64_t c = 0; c < plane.width; ++c) {
      const int64_t column = std::min(c * plane.reduced + plane.reduced / 2, picture.width - 1);
      const int64_t row = std::min(r * plane.reduced + plane.reduced / 2, picture.height - 1);
      *to++ = picture.numbers[static_cast<size_t>(row * picture.width + column) * has];
    }
  if (has == 3 && picture.exact)
    for (size_t i = 0; i < picture.numbers.size(); i += 3)
      if (picture.numbers[i] != picture.numbers[i + 1] || picture.numbers[i] != picture.numbers[i + 2])
        refuse(file,
               "is a mask in colors; a mask has one number a pixel: save it as gray or with a palette, or one "
               "mask for each structure");
  return plane;
}

void show(const PicturePlane& plane, int64_t size, const SliceView& view, std::span<float> to) {
  check(std::ssize(to) == size * size * plane.channels, "an image of another size");
  const auto last_column = static_cast<double>(plane.width - 1), last_row = static_cast<double>(plane.height - 1);
  each_place(plane, size, view, [&](int64_t pixel, double column, double row) {
    float* values = to.data() + pixel * plane.channels;
    if (!pixel_inside(column, plane.width) || !pixel_inside(row, plane.height)) {
      std::fill_n(values, plane.channels, 0.0F);
      return;
    }
    const double left = std::clamp(column, 0.0, last_column), above = std::clamp(row, 0.0, last_row);
    const auto c = static_cast<int64_t>(left), r = static_cast<int64_t>(above);
    const double right_part = left - static_cast<double>(c), below_part = above - static_cast<double>(r);
    const int64_t right = std::min(c + 1, plane.width - 1), below = std::min(r + 1, plane.height - 1);
    for (int64_t channel = 0; channel < plane.channels; ++channel) {
      const auto value = [&](int64_t at_column, int64_t at_row) {
        return double{plane.values[static_cast<size_t>((at_row * plane.width + at_column) * plane.channels + channel)]};
      };
      const double upper = value(c, r) + right_part * (value(right, r) - value(c, r));
      const double lower = value(c, below) + right_part * (value(right, below) - value(c, below));
      values[channel] = static_cast<float>(upper + below_part * (lower - upper));
    }
  });
}

}  // namespace plimsoll
