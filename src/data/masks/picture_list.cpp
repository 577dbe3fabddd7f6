#include "data/masks/picture_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
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

}  // namespace plimsoll
