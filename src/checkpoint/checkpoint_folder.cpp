// Lists the checkpoints of a folder: names, the newest, and the number to keep.
#include <fmt/format.h>

#include <charconv>

#include "base/file_error.h"
#include "base/names.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_state.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr std::string_view kStepPrefix = "step-", kSuffix = ".safetensors";
constexpr size_t kDigits = 8, kMaxDigits = 18;

/// Returns the step in a checkpoint's name. Hidden files have none, for example those that a killed run left
/// half-written.
std::optional<int64_t> step_in(std::string_view name) {
  if (!name.starts_with(kStepPrefix) || !name.ends_with(kSuffix)) return {};
  name.remove_prefix(kStepPrefix.size());
  name.remove_suffix(kSuffix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || name.size() < kDigits || name.size() > kMaxDigits ||
      step < 0)
    return {};
  return step;
}

}  // namespace

std::map<int64_t, std::filesystem::path> checkpoints_in(const std::filesystem::path& directory) {
  std::map<int64_t, std::filesystem::path> found;
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error))
    if (const auto step = step_in(entries->path().filename().string())) found[*step] = entries->path();
  if (error) throw_file_error("read the folder", directory, error.value());
  return found;
}

std::string checkpoint_advice(const std::filesystem::path& folder) {
  try {
    if (const auto existing = checkpoints_in(folder); !existing.empty())
      return fmt::format("name a checkpoint in it, such as the newest: {}", existing.rbegin()->second.string());
  } catch (const UserError&) {  // the folder cannot be listed: there is no checkpoint to name
  }
  return "name a checkpoint that plimsoll train wrote, a .safetensors file";
}

std::optional<std::filesystem::path> checkpoint_to_resume(const CheckpointConfig& config) {
  std::map<int64_t, std::filesystem::path> existing;
  if (!config.directory.empty())
    existing = of_key("checkpoint.directory", [&] { return checkpoints_in(config.directory); });
  if (config.resume == "auto") return existing.empty() ? std::nullopt : std::optional(existing.rbegin()->second);
  std::optional<std::filesystem::path> file;
  if (config.resume != "never") file = config.resume;
  std::error_code error;
  if (file && !std::filesystem::exists(*file, error))
    throw UserError(
        fmt::format("checkpoint.resume is {}, which does not exist{}", file->string(), nearest_file_advice(*file)));
  if (file && std::filesystem::is_directory(*file, error))
    throw UserError(fmt::format("checkpoint.resume is {}, a folder; {}", file->string(), checkpoint_advice(*file)));
  if (existing.empty()) return file;

  const auto& [step, newest] = *existing.rbegin();
  const int64_t from = file ? step_in(file->filename().string()).value_or(-1) : -1;
  if (step > from)
    throw UserError(fmt::format(
        "checkpoint.resume is {}, but checkpoint.directory already holds {} of an earlier run; choose another "
        "checkpoint.directory, delete or move its files, or set checkpoint.resume: auto to continue that run",
        config.resume, newest.string()));
  return file;
}

std::filesystem::path save_checkpoint(const CheckpointConfig& config, const CheckpointInfo& info,
                                      const NamedTensors& state) {
  return save_checkpoint(config, info, state, SlicedState{});
}

std::filesystem::path save_checkpoint(const CheckpointConfig& config, const CheckpointInfo& info,
                                      const NamedTensors& state, const SlicedState& sliced) {
  const std::filesystem::path file =
      config.directory / fmt::format("{}{:0{}}{}", kStepPrefix, info.step, kDigits, kSuffix);
  write_checkpoint(file, info, state, sliced);
  if (config.keep > 0) {
    auto existing = checkpoints_in(config.directory);
    for (auto oldest = existing.begin();
         oldest->first<info.step&& static_cast<int64_t>(existing.size())> config.keep;) {
      std::error_code ignored;  // a checkpoint that cannot be deleted uses space, but is no reason to stop training
      std::filesystem::remove(oldest->second, ignored);
      oldest = existing.erase(oldest);
    }
  }
  return file;
}

}  // namespace plimsoll
