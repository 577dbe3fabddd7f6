#include "checkpoint/checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/checkpoint_state.h"
#include "checkpoint/data_facts.h"
#include "ops/libtorch_types.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors.h"

namespace plimsoll {
namespace {

constexpr const char* kMetadataKey = "plimsoll.checkpoint";
constexpr const char* kHeaderHashKey = "hash:__metadata__";  // key that SafetensorsWriter writes
// Version 2: codes of 8-bit optimizer state are ordered by vectors (place_of_bits8).
constexpr int64_t kFormatVersion = 2;
constexpr int64_t kMaxCounted = int64_t{1} << 62;  // largest number of steps and windows: sums of two stay in range
// Counters and settings of a job take a few kilobytes.
constexpr int64_t kMaxDescriptionBytes = int64_t{16} << 20;
constexpr size_t kDifferencesShown = 8;
// Keys of a checkpoint's origin.
constexpr const char* kModelTypeKey = "model.type";
constexpr const char* kRevisionKey = "model.revision";

std::string shape_text(DType dtype, const std::vector<int64_t>& sizes) {
  return fmt::format("{} [{}]", name_of(dtype), fmt::join(sizes, ", "));
}

/// Returns the number of the model's revision in an origin, without the explanation that may follow it: "2 (why)". An
/// origin without a revision is of revision 1.
std::string revision_of(const std::map<std::string, std::string>& origin) {
  const auto found = origin.find(kRevisionKey);
  return found == origin.end() ? "1" : found->second.substr(0, found->second.find(" ("));
}

std::string metadata_of(const CheckpointInfo& info) {
  nlohmann::ordered_json json;
  json["format_version"] = kFormatVersion;
  json["step"] = info.step;
  json["position"] = info.position;
  json["epoch"] = info.epoch;
  json["counters"] = info.counters;
  json["origin"] = info.origin;
  if (info.origin.contains(kRevisionKey)) json["origin"][kRevisionKey] = revision_of(info.origin);
  if (info.data) json["data"] = json_of(*info.data);
  return json.dump();
}

bool has_8bit_state(const SafetensorsFile& file) {
  return std::ranges::any_of(file.tensors(), [](const auto& entry) {
    return entry.first.starts_with("optimizer.") && entry.second.dtype == DType::uint8 &&
           entry.first.find("_scales.") == std::string::npos;
  });
}

CheckpointInfo parse_metadata(const SafetensorsFile& file, const std::string& path) {
  const auto found = file.metadata().find(kMetadataKey);
  if (found == file.metadata().end())
    throw UserError(
        fmt::format(
            "{} is not a checkpoint of Plimsoll; set checkpoint.resume to a file that 'plimsoll train' has written",
            path),
        UserError::Kind::failure);
  if (std::ssize(found->second) > kMaxDescriptionBytes)
    throw corrupt_file(
        path, fmt::format("its description has {} bytes; allowed: {}", found->second.size(), kMaxDescriptionBytes));
  CheckpointInfo info;
  const nlohmann::json json = parse_json_object(found->second, path + ": its description");
  try {
    const auto version = json.at("format_version").get<int64_t>();
    if (version == 1 && has_8bit_state(file))
      throw UserError(fmt::format("{} has 8-bit optimizer state in an older format, which this version cannot read; to "
                                  "keep its weights, start a new run with model.weights",
                                  path),
                      UserError::Kind::failure);
    if (version != 1 && version != kFormatVersion)
      throw UserError(
          fmt::format("{} has format version {}; this program reads version {}", path, version, kFormatVersion),
          UserError::Kind::failure);
    info.step = json.at("step").get<int64_t>();
    info.position = json.at("position").get<int64_t>();
    info.epoch = json.at("epoch").get<int64_t>();
    info.counters = json.at("counters").get<std::map<std::string, std::string>>();
    info.origin = json.at("origin").get<std::map<std::string, std::string>>();
    if (const auto data = json.find("data"); data != json.end()) info.data = parse_data_facts(*data);
  } catch (const nlohmann::json::exception& error) {
    throw corrupt_file(path, fmt::format("its description cannot be read ({})", one_line(error.what())));
  }
  if (info.step < 0 || info.step > kMaxCounted || info.position < 0 || info.position > kMaxCounted)
    throw corrupt_file(path, "its step or its position in the data is out of range");
  return info;
}

/// Returns the differences in keys for which `counts` is true. The revision is not among them: require_same_revision()
/// compares it. Some keys are stored only if they are not the default, so a key that one side lacks is a difference.
std::vector<std::string> origin_differences(const std::map<std::string, std::string>& foreign,
                                            const std::map<std::string, std::string>& ours,
                                            const std::function<bool(const std::string& key)>& counts) {
  std::vector<std::string> found;
  for (const auto& [key, value] : ours) {
    if (key == kRevisionKey || !counts(key)) continue;
    const auto other = foreign.find(key);
    if (other == foreign.end())
      found.push_back(fmt::format("{} is {} in the job, not said in the checkpoint", key, value));
    else if (other->second != value)
      found.push_back(fmt::format("{} is {} in the job, {} in the checkpoint", key, value, one_line(other->second)));
  }
  for (const auto& [key, value] : foreign)
    if (key != kRevisionKey && counts(key) && !ours.contains(key))
      found.push_back(fmt::format("{} is {} in the checkpoint, not said in the job", one_line(key), one_line(value)));
  return found;
}

/// Throws UserError if the checkpoint is of an earlier or later revision of the job's model: no setting of the job can
/// fix that.
void require_same_revision(const std::map<std::string, std::string>& foreign,
                           const std::map<std::string, std::string>& ours, const std::filesystem::path& checkpoint) {
  const auto type = foreign.find(kModelTypeKey), wanted = ours.find(kModelTypeKey);
  if (type == foreign.end() || wanted == ours.end() || type->second != wanted->second) return;
  if (revision_of(foreign) == revision_of(ours)) return;
  const auto explained = ours.find(kRevisionKey);
  throw UserError(
      fmt::format("{}: the model {} of this checkpoint is of revision {}; this version of Plimsoll has revision {}. "
                  "Nothing was loaded. Start a new run in another checkpoint.directory, or use the version that wrote "
                  "the checkpoint.",
                  checkpoint.string(), wanted->second, one_line(revision_of(foreign)),
                  explained == ours.end() ? "1" : explained->second));
}

std::vector<std::string> setting_differences(const std::map<std::string, std::string>& foreign,
                                             const std::map<std::string, std::string>& ours) {
  // Keys whose state is converted as far as possible, or that do not affect the stored data.
  static const std::set<std::string> told{"optimizer.state_dtype", "optimizer.weight_update",
                                          "gradient_accumulation_dtype"};
  return origin_differences(foreign, ours,
                            [](const std::string& key) { return !told.contains(key) && !is_data_key(key); });
}

/// Returns the reason of a refusal and its remedies.
std::pair<const char*, const char*> other_job(bool other_settings, bool other_data) {
  if (!other_data)
    return {"it was written by a job with other settings", "To continue that run, restore its settings."};
  if (!other_settings)
    return {"it was written by a job with other data",
            "To continue that run, restore its data. To train on with these, set checkpoint.allow_other_data: true."};
  return {"it was written by a job with other settings and other data",
          "To continue that run, restore its settings and its data (checkpoint.allow_other_data: true allows other "
          "data)."};
}

std::vector<std::string> tensor_differences(const SafetensorsFile& file, const NamedTensors& state,
                                            const std::vector<StateConversion>& conversions,
                                            const SlicedState& sliced) {
  std::vector<std::string> found;
  std::map<std::string, const at::Tensor*> wanted;
  for (const auto& [name, tensor] : state) wanted[name] = &tensor;
  std::set<std::string> made, used;
  for (const StateConversion& conversion : conversions) {
    made.insert(conversion.to.begin(), conversion.to.end());
    used.insert(conversion.from.begin(), conversion.from.end());
  }
  for (const auto& [name, tensor] : wanted) {
    if (made.contains(name)) continue;
    const std::string ours_text = shape_text(dtype_of(tensor->scalar_type()), sliced.sizes_of(name, *tensor));
    const auto stored = file.tensors().find(name);
    if (stored == file.tensors().end()) {
      found.push_back(fmt::format("the tensor '{}' ({}) is missing in the checkpoint", name, ours_text));
      continue;
    }
    const std::string stored_text = shape_text(stored->second.dtype, stored->second.sizes);
    if (ours_text != stored_text)
      found.push_back(
          fmt::format("the tensor '{}' is {} in the job, {} in the checkpoint", name, ours_text, stored_text));
  }
  for (const auto& [name, stored] : file.tensors())
    if (!wanted.contains(name) && !used.contains(name))
      found.push_back(fmt::format("the tensor {} ({}) is in the checkpoint only", in_quotes(name),
                                  shape_text(stored.dtype, stored.sizes)));
  return found;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& file, const CheckpointInfo& info, const NamedTensors& state) {
  write_checkpoint(file, info, state, SlicedState{});
}

void write_checkpoint(const std::filesystem::path& file, const CheckpointInfo& info, const NamedTensors& state,
                      const SlicedState& sliced) {
  // Tensors with large elements come first, so that every tensor is aligned in the file.
  const NamedTensors tensors = in_file_order(state);
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : tensors) {
    ContentHasher hasher;
    for_each_piece(name, tensor, sliced, [&](std::span<const std::byte> piece) { hasher.update(piece); });
    declarations.push_back({name, dtype_of(tensor.scalar_type()), sliced.sizes_of(name, tensor), hasher.digest()});
  }
  SafetensorsWriter writer(file, declarations, {{kMetadataKey, metadata_of(info)}});
  for (const auto& entry : tensors)
    for_each_piece(entry.first, entry.second, sliced,
                   [&](std::span<const std::byte> piece) { writer.write(entry.first, piece); });
  writer.commit();
}

CheckpointInfo describe_checkpoint(const std::filesystem::path& path) {
  return parse_metadata(SafetensorsFile::open(path), path.string());
}

std::optional<std::string> checkpoint_origin(const std::filesystem::path& path, const std::string& key) {
  const CheckpointInfo info = describe_checkpoint(path);
  const auto found = info.origin.find(key);
  return found == info.origin.end() ? std::nullopt : std::optional(found->second);
}

void require_same_model(const std::map<std::string, std::string>& origin, const std::filesystem::path& checkpoint) {
  const std::map<std::string, std::string> foreign = describe_checkpoint(checkpoint).origin;
  require_same_revision(foreign, origin, checkpoint);
  std::vector<std::string> found = origin_differences(foreign, origin, [](const std::string& key) {
    return key.starts_with("model.") && !key.starts_with("model.loss.") && key != "model.vocab_size";
  });
  if (found.empty()) return;
  if (found.size() > kDifferencesShown) found.resize(kDifferencesShown);
  throw UserError(
      fmt::format("{} has another model than the job\n  {}\nRestore these settings, or name another "
                  "checkpoint.",
                  checkpoint.string(), fmt::join(found, "\n  ")));
}

CheckpointInfo read_checkpoint(const std::filesystem::path& path, const std::map<std::string, std::string>& origin,
                               const NamedTensors& state, const std::function<void(const CheckpointInfo&)>& accept) {
  return read_checkpoint(path, origin, state, accept, SlicedState{});
}

namespace {

// Overwrites a partly read state. Its rest may be zeros, which look like weights; not-a-number ends every training that
// continues.
void make_unusable(const NamedTensors& state) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state) {
    if (tensor.is_floating_point())
      tensor.fill_(std::numeric_limits<double>::quiet_NaN());
    else
      tensor.zero_();
  }
}

// Copies the tensors of the file into `state`, and converts those of other formats.
void copy_state(const SafetensorsFile& file, const NamedTensors& state, const std::vector<StateConversion>& conversions,
                const SlicedState& sliced) {
  std::set<std::string> converted;
  for (const StateConversion& conversion : conversions) converted.insert(conversion.to.begin(), conversion.to.end());
  for (const auto& [name, tensor] : state) {
    if (converted.contains(name)) continue;
    const StoredTensor& stored = file.tensors().at(name);
    if (stored.bytes.empty()) continue;
    const bool direct = tensor.is_contiguous() && tensor.device().is_cpu();
    at::Tensor target = direct ? tensor : at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
    std::span<const std::byte> bytes = stored.bytes;
    if (sliced.is_slice(name)) {
      const size_t begin = std::min(bytes.size(), static_cast<size_t>(sliced.exchange->rank()) * target.nbytes());
      bytes = bytes.subspan(begin, std::min(bytes.size() - begin, target.nbytes()));
      std::memset(static_cast<std::byte*>(target.mutable_data_ptr()) + bytes.size(), 0, target.nbytes() - bytes.size());
    }
    auto* to = static_cast<std::byte*>(target.mutable_data_ptr());
    MappedFile::for_each_piece(bytes, [&](std::span<const std::byte> piece) {
      std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    });
    if (!direct) tensor.copy_(target);
  }
  for (const StateConversion& conversion : conversions) conversion.apply();
}

// Returns `state` with a tensor without memory, of the whole tensor's sizes, for each slice.
NamedTensors with_whole_sizes(NamedTensors state, const SlicedState& sliced) {
  for (auto& [name, tensor] : state)
    if (sliced.is_slice(name)) tensor = at::empty(sliced.sizes_of(name, tensor), tensor.options().device(at::kMeta));
  return state;
}

// Returns the conversions without those of slices, which become refusals.
std::vector<StateConversion> without_slices(std::vector<StateConversion> conversions, const SlicedState& sliced,
                                            std::vector<std::string>& refused) {
  size_t count = 0;
  for (StateConversion& conversion : conversions)
    for (const std::string& name : conversion.to)
      if (sliced.is_slice(name) && conversion.apply) {
        conversion.apply = {};
        ++count;
      }
  if (count > 0)
    refused.push_back(
        fmt::format("the format of {} tensors of optimizer state differs, and slices are not converted: "
                    "set optimizer.state_dtype and optimizer.weight_update as they were, or resume once "
                    "on one device",
                    count));
  return conversions;
}

}  // namespace

CheckpointInfo read_checkpoint(const std::filesystem::path& path, const std::map<std::string, std::string>& origin,
                               const NamedTensors& state, const std::function<void(const CheckpointInfo&)>& accept,
                               const SlicedState& sliced, const DataOfJob* data) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const size_t verified = file.verify();
  CheckpointInfo info = parse_metadata(file, path.string());
  if (!file.metadata().contains(kHeaderHashKey)) throw corrupt_file(path.string(), "its header has no checksum");
  if (verified != file.tensors().size())
    throw corrupt_file(path.string(), fmt::format("{} of its {} tensors have no checksum",
                                                  file.tensors().size() - verified, file.tensors().size()));
  require_same_revision(info.origin, origin, path);
  std::vector<std::string> refused;
  const NamedTensors wholes = with_whole_sizes(state, sliced);
  const std::vector<StateConversion> conversions =
      without_slices(state_conversions(file, wholes, refused), sliced, refused);
  std::vector<std::string> found = setting_differences(info.origin, origin);
  if (found.size() > kDifferencesShown) {
    const size_t more = found.size() - kDifferencesShown;
    found.resize(kDifferencesShown);
    found.push_back(fmt::format("and {} more setting{} differ{}", more, more == 1 ? "" : "s", more == 1 ? "s" : ""));
  }
  std::ranges::copy(refused, std::back_inserter(found));
  const std::vector<std::string> other_data =
      data_differences({info.origin, info.data ? &*info.data : nullptr}, {origin, data ? &data->facts : nullptr});
  const bool refuses_data = !other_data.empty() && !(data && data->may_differ);
  if (const std::vector<std::string> tensors = tensor_differences(file, state, conversions, sliced);
      !found.empty() || !tensors.empty() || refuses_data) {
    const auto& [reason, remedy] = other_job(!found.empty() || !tensors.empty(), refuses_data);
    if (refuses_data) found.insert(found.end(), other_data.begin(), other_data.end());
    // Different settings explain different tensors, so one tensor is enough as an example.
    const size_t shown = std::min(tensors.size(), found.empty() ? kDifferencesShown : 1);
    found.insert(found.end(), tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(shown));
    if (const size_t more = tensors.size() - shown; more > 0)
      found.push_back(fmt::format("and {} more {}", more, more == 1 ? "tensor that differs" : "tensors that differ"));
    throw UserError(
        fmt::format("cannot resume from {}: {}; nothing was loaded\n  {}\n"
                    "{} To start another run, set another checkpoint.directory.",
                    path.string(), reason, fmt::join(found, "\n  "), remedy));
  }
  if (accept) accept(info);
  if (data && data->noted && !other_data.empty())
    data->noted(fmt::format("{}: the run goes on with other data, as checkpoint.allow_other_data says: {}",
                            path.string(), fmt::join(other_data, "; ")));
  if (data && data->noted && !info.data)
    data->noted(
        fmt::format("{} does not identify its data, because an earlier version of Plimsoll wrote it: whether "
                    "the job has the same data cannot be compared",
                    path.string()));
  // After verify() has read the whole file, only a file that another program cuts can fail.
  try {
    copy_state(file, state, conversions, sliced);
    file.require_whole();
  } catch (...) {
    make_unusable(state);
    file.require_whole();  // an error of its own if bytes were lost
    throw;
  }
  return info;
}

}  // namespace plimsoll
