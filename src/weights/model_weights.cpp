#include "weights/model_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/process.h"
#include "base/text.h"
#include "checkpoint/checkpoint_state.h"
#include "ops/libtorch_types.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors.h"
#include "weights/checkpoint_weights.h"
#include "weights/families.h"
#include "weights/gguf_source.h"
#include "weights/huggingface_export.h"
#include "weights/mamba_family.h"
#include "weights/source.h"
#include "weights/tensor_names.h"
#include "weights/vision_families.h"
#include "weights/weight_slots.h"

namespace plimsoll {
namespace {

constexpr size_t kProblemsShown = 12;
constexpr int64_t kAtATime = 4 * MiB;  // bytes of a tensor that are converted or dequantized at a time

/// A tensor of a source that is read from front to back.
class Reading {
 public:
  Reading(const weights::Source& source, const std::string& name)
      : source_(source), name_(name), tensor_(source.tensors().at(name)) {}
  ~Reading() { source_.release_pages(name_); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  /// Returns a number of rows that is about kAtATime bytes; a multiple of `unit` rows.
  int64_t rows_at_a_time(int64_t unit = 1) const {
    int64_t row_bytes = element_bytes(tensor_.dtype);
    for (size_t i = 1; i < tensor_.sizes.size(); ++i) row_bytes *= tensor_.sizes[i];
    // The values of a vector may be in blocks: it is read in one piece.
    if (tensor_.sizes.size() < 2) return tensor_.sizes[0];
    return std::max<int64_t>(1, kAtATime / (row_bytes * unit)) * unit;
  }

  /// Returns rows [begin, end), valid until the next call.
  at::Tensor rows(int64_t begin, int64_t end) {
    source_.release_pages(name_);  // of the rows before
    const std::span<const std::byte> bytes = source_.rows(name_, begin, end, buffer_);
    std::vector<int64_t> sizes = tensor_.sizes;
    sizes[0] = end - begin;
    const auto options = at::TensorOptions().dtype(scalar_type_of(tensor_.dtype));
    if (reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<uintptr_t>(element_bytes(tensor_.dtype)) == 0)
      return at::from_blob(const_cast<std::byte*>(bytes.data()), sizes, options);  // NOLINT: it is only read
    at::Tensor copy = at::empty(sizes, options);
    std::memcpy(copy.mutable_data_ptr(), bytes.data(), bytes.size());
    return copy;
  }

 private:
  const weights::Source& source_;
  std::string name_;
  const weights::Source::Tensor& tensor_;
  std::vector<std::byte> buffer_;
};

/// Copies a piece into its rows of our parameter.
void read_piece(const weights::Source& source, const weights::Piece& piece, const std::string& name, bool less_one,
                const at::Tensor& to) {
  Reading reading(source, name);
  const auto put = [&](const at::Tensor& place, const at::Tensor& part) {
    place.copy_(less_one ? part.to(at::kFloat) + 1 : part);
  };
  if (piece.interleaved_heads > 0) {
    const int64_t head = piece.sizes[0] / piece.interleaved_heads;
    for (int64_t h = 0; h < piece.interleaved_heads; ++h) {
      const at::Tensor place = to.narrow(0, h * head, head).unflatten(0, {2, head / 2});
      put(place, reading.rows(h * head, (h + 1) * head).unflatten(0, {head / 2, 2}).transpose(0, 1));
    }
    return;
  }
  if (!piece.here.empty() && piece.here[0] != piece.sizes[0])  // rows differ from ours: read in one piece
    return put(to, reading.rows(0, piece.sizes[0]).reshape(piece.here));
  const int64_t count = piece.sizes[0], step = reading.rows_at_a_time();
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t size = std::min(step, count - begin);
    const at::Tensor part = reading.rows(begin, begin + size);
    if (piece.transposed)
      put(to.narrow(1, begin, size), part.t());
    else
      put(to.narrow(0, begin, size), part.reshape(to.narrow(0, begin, size).sizes()));
  }
}

struct Found {
  const weights::Parameter* parameter;
  const WeightSlot* wanted;
  std::vector<std::string> names;  // names of its pieces in the file
};

/// Returns the tensors of a part of a model ("llm."), named as if it were the whole.
NamedTensors part_of(const NamedTensors& state, const std::string& prefix) {
  if (prefix.empty()) return state;
  NamedTensors part;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with(prefix)) part.emplace_back(name.substr(prefix.size()), tensor);
    for (const char* kind : kCompanionKinds)
      if (const std::string beside = companion_name(kind, prefix); name.starts_with(beside))
        part.emplace_back(companion_name(kind, name.substr(beside.size())), tensor);
  }
  return part;
}

/// Returns the slices of the part, under the names of part_of(state, prefix).
SlicedState part_of(const SlicedState& sliced, const std::string& prefix) {
  if (prefix.empty()) return sliced;
  SlicedState part{{}, sliced.exchange};
  for (const auto& [name, sizes] : sliced.whole_sizes) {
    if (name.starts_with(prefix)) part.whole_sizes[name.substr(prefix.size())] = sizes;
    for (const char* kind : kCompanionKinds)
      if (const std::string beside = companion_name(kind, prefix); name.starts_with(beside))
        part.whole_sizes[companion_name(kind, name.substr(beside.size()))] = sizes;
  }
  return part;
}

class Loading {
 public:
  /// Matches the tensors; `key` is the job's key that names `path`.
  Loading(const std::filesystem::path& path, weights::Layout layout, const NamedTensors& state,
          const SlicedState& sliced, const std::string& key)
      : layout_(std::move(layout)), source_(weights::open_source(path)) {
    const std::string_view prefix = layout_.optional_prefix;
    const std::string& first = layout_.parameters.front().pieces.front().name;
    left_out_ = !prefix.empty() && first.starts_with(prefix) && !source_->tensors().contains(first) &&
                source_->tensors().contains(first.substr(prefix.size()));
    for (WeightSlot& each : weight_slots(state, sliced)) wanted_.emplace(each.name, std::move(each));
    match();
    look_for_others();
    if (problems_.empty()) return;
    const size_t shown = std::min(problems_.size(), kProblemsShown);
    throw UserError(
        fmt::format("{}: {} does not hold the weights of this model; nothing was loaded\n  {}{}", key, path.string(),
                    fmt::join(problems_.begin(), problems_.begin() + static_cast<std::ptrdiff_t>(shown), "\n  "),
                    problems_.size() > shown ? fmt::format("\n  and {} more", problems_.size() - shown) : ""));
  }

  void load() const {
    for (const Found& each : found_) {
      const WeightSlot& wanted = *each.wanted;
      const bool direct = wanted.copy_target.defined();
      const DType type = source_->tensors().at(each.names.front()).dtype;
      // The type is not the file's own: 1 + w of 16 bits has more bits, and a companion may hold them.
      const at::ScalarType exact = type == DType::float64 ? at::kDouble : at::kFloat;
      if (!direct) release_before(c10::multiply_integers(wanted.sizes) * static_cast<int64_t>(sizeof(float)));
      const at::Tensor whole = direct ? wanted.copy_target : at::empty(wanted.sizes, exact);
      int64_t row = 0;
      for (size_t i = 0; i < each.names.size(); ++i) {
        const weights::Piece& piece = each.parameter->pieces[i];
        read_piece(*source_, piece, each.names[i], each.parameter->less_one, whole.narrow(0, row, piece.rows()));
        row += piece.rows();
      }
      for (const std::string& name : each.names) source_->require_whole(name);
      if (!direct) wanted.put(whole);
    }
  }

 private:
  std::string name_in_file(const std::string& name) const {
    const std::string_view prefix = layout_.optional_prefix;
    return left_out_ && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  }

  std::string_view without_prefix(std::string_view name) const {
    return name.starts_with(layout_.optional_prefix) ? name.substr(layout_.optional_prefix.size()) : name;
  }

  void match() {
    for (const weights::Parameter& parameter : layout_.parameters) {
      const auto wanted = wanted_.find(parameter.name);
      Found found{&parameter, wanted == wanted_.end() ? nullptr : &wanted->second, {}};
      if (!found.wanted) problems_.push_back(fmt::format("'{}' is not in the model that is trained", parameter.name));
      std::vector<int64_t> sizes = parameter.pieces.front().ours();
      if (parameter.pieces.front().transposed) std::swap(sizes[0], sizes[1]);
      sizes[0] = 0;
      for (const weights::Piece& piece : parameter.pieces) {
        const std::string& name = found.names.emplace_back(name_in_file(piece.name));
        used_.insert(name);
        sizes[0] += piece.rows();
        const auto tensor = source_->tensors().find(name);
        if (tensor == source_->tensors().end())
          problems_.push_back(fmt::format("'{}' {} is missing", name, sizes_text(piece.sizes)));
        else if (tensor->second.sizes != piece.sizes || !is_floating(tensor->second.dtype))
          problems_.push_back(fmt::format("'{}' is {} {} in the file, floating {} in the model", name,
                                          name_of(tensor->second.dtype), sizes_text(tensor->second.sizes),
                                          sizes_text(piece.sizes)));
      }
      if (found.wanted && found.wanted->sizes != sizes)
        problems_.push_back(fmt::format("'{}' is {} in the files' architecture, {} in the model that is trained",
                                        parameter.name, sizes_text(sizes), sizes_text(found.wanted->sizes)));
      found_.push_back(std::move(found));
    }
  }

  void look_for_others() {
    for (const auto& [name, tensor] : source_->tensors())
      if (!used_.contains(name) && !layout_.is_ignored(without_prefix(name)))
        problems_.push_back(fmt::format("{} {} is in the file only", in_quotes(name), sizes_text(tensor.sizes)));
      else if (!used_.contains(name) && tensor.sizes.size() > 0 && !is_computed_alike(name))
        problems_.push_back(fmt::format("{} {} is not what the model computes in its place", in_quotes(name),
                                        sizes_text(tensor.sizes)));
    std::set<std::string> known;
    for (const weights::Parameter& parameter : layout_.parameters) known.insert(parameter.name);
    for (const auto& [name, wanted] : wanted_)
      if (!wanted.optional && !known.contains(name))
        problems_.push_back(
            fmt::format("'{}' {} is in the model that is trained only", name, sizes_text(wanted.sizes)));
  }

  /// Returns false if a buffer of older versions of transformers differs from what the model computes in its place: a
  /// causal mask, or rotary frequencies (to 1 %, because a file may hold them in 8 bits).
  bool is_computed_alike(const std::string& name) const {
    const bool mask = name.ends_with(".attn.bias"), frequencies = name.ends_with(".rotary_emb.inv_freq");
    if (!mask && !frequencies) return true;
    const std::vector<int64_t>& sizes = source_->tensors().at(name).sizes;
    Reading reading(*source_, name);
    const at::Tensor held = reading.rows(0, sizes[0]).to(at::kDouble);
    if (frequencies) {
      const at::Tensor computed = at::from_blob(const_cast<double*>(layout_.rotary_frequencies.data()),  // NOLINT: read
                                                {std::ssize(layout_.rotary_frequencies)}, at::kDouble);
      return held.sizes() == computed.sizes() && at::allclose(held, computed, 0.01, 0);
    }
    const int64_t side = sizes.back();
    if (held.numel() != side * side) return false;
    const at::Tensor shown = held.view({side, side}) != 0;
    return at::equal(shown, at::ones({side, side}).tril() != 0);
  }

  weights::Layout layout_;
  std::unique_ptr<weights::Source> source_;
  bool left_out_ = false;  // true if this file omits the prefix
  std::map<std::string, WeightSlot> wanted_;
  std::vector<Found> found_;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
};

/// Returns true for a file in the format of plimsoll export, by the one name that every model of ours has.
bool has_our_names(const std::filesystem::path& file) {
  return SafetensorsFile::open(file).tensors().contains("embedding");
}

}  // namespace

void load_decoder_weights(const std::filesystem::path& weights, const std::filesystem::path& config,
                          const NamedTensors& state, const std::string& prefix, const SlicedState& sliced) {
  const at::NoGradGuard no_grad;
  weights::Architecture architecture = weights::is_gguf(weights)
                                           ? weights::read_gguf_architecture(weights)
                                           : weights::read_architecture(config.empty() ? weights : config);
  weights::compare_with_weights(weights, architecture);
  Loading(weights, weights::layout_of(architecture.family, architecture.config), part_of(state, prefix),
          part_of(sliced, prefix), "model." + prefix + "weights")
      .load();
}

void load_mamba_weights(const std::filesystem::path& weights, const std::filesystem::path& config,
                        const NamedTensors& state, const SlicedState& sliced) {
  const at::NoGradGuard no_grad;
  MambaConfig architecture = weights::read_mamba_config(config.empty() ? weights : config);
  weights::compare_with_weights(weights, architecture, nullptr);
  Loading(weights, weights::mamba_layout_of(architecture), state, sliced, "model.weights").load();
}

void load_vision_weights(const std::filesystem::path& weights, const std::filesystem::path& config,
                         const VisionConfig& wanted, const NamedTensors& state, const std::string& prefix,
                         const SlicedState& sliced) {
  const at::NoGradGuard no_grad;
  weights::VisionArchitecture architecture = weights::read_vision_architecture(config.empty() ? weights : config);
  const int64_t depth = architecture.config.depth;
  architecture.config.depth = wanted.depth;
  architecture.config.final_norm = wanted.final_norm;
  Loading(weights, weights::vision_layout_of(architecture, depth), part_of(state, prefix), part_of(sliced, prefix),
          "model." + prefix + "weights")
      .load();
}

void load_tiny_vit_weights(const std::filesystem::path& weights, const NamedTensors& state, const std::string& prefix,
                           const SlicedState& sliced) {
  const at::NoGradGuard no_grad;
  constexpr std::string_view kPublished = "image_encoder.";
  NamedTensors part = part_of(state, prefix);
  std::erase_if(part, [](const auto& each) { return each.first.ends_with(".distances"); });  // computed from positions
  const SlicedState slices = part_of(sliced, prefix);
  weights::Layout layout;
  layout.optional_prefix = kPublished;
  for (const WeightSlot& wanted : weight_slots(part, slices))
    if (!wanted.optional)
      layout.parameters.push_back({wanted.name, {{std::string(kPublished) + wanted.name, wanted.sizes}}});
  // The other parts of SAM, the classifier of a TinyViT, and the counters of its batches.
  layout.is_ignored = [](std::string_view name) {
    constexpr std::string_view others[] = {"prompt_encoder.", "mask_decoder.", "norm_head.",
                                           "head.",           "pixel_mean",    "pixel_std"};
    return name.ends_with(".num_batches_tracked") ||
           std::ranges::any_of(others, [&](std::string_view other) { return name.starts_with(other); });
  };
  Loading(weights, std::move(layout), part, slices, "model." + prefix + "weights").load();
}

namespace {

/// Returns true if the weights are in another program's format, with its names and layout.
bool are_foreign(const std::filesystem::path& weights, const std::filesystem::path& config) {
  std::error_code error;
  return std::filesystem::is_directory(weights, error) || weights::is_gguf(weights) ||
         (!config.empty() && !has_our_names(weights));
}

}  // namespace

void load_model_weights(const ModelConfig& model, const NamedTensors& state, const SlicedState& sliced) {
  const weights::ModelFormat format = weights::model_format(model.type);
  if (!model.weights.empty()) {
    if (!are_foreign(model.weights, model.config)) return load_weights(model.weights, state, "model.weights", sliced);
    if (!format.load)
      throw UserError(
          fmt::format("model.weights is {}; a model of type {} starts from a safetensors file of its own, such as "
                      "plimsoll export writes, or from the weights of its parts ({})",
                      model.weights.string(), model.type, format.part_keys));
    return format.load(model, state, sliced);
  }
  if (!model.llm_weights.empty()) {
    if (are_foreign(model.llm_weights, model.llm_config))
      load_decoder_weights(model.llm_weights, model.llm_config, state, "llm.", sliced);
    else
      load_weights(model.llm_weights, part_of(state, "llm."), "model.llm.weights", part_of(sliced, "llm."));
  }
  if (!model.vision_weights.empty() && format.load_vision) format.load_vision(model, state, sliced);
}

bool starts_from_weights(const ModelConfig& model) {
  return !model.weights.empty() || !model.llm_weights.empty() || !model.vision_weights.empty();
}

}  // namespace plimsoll
