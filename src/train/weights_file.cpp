#include "train/weights_file.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <functional>

#include "base/quoted.h"
#include "data/content_hash.h"
#include "data/safetensors.h"
#include "ops/quantized_linear.h"
#include "plimsoll/error.h"
#include "record/dtypes.h"
#include "train/weight_companions.h"

namespace plimsoll {
namespace {

constexpr std::string_view kState = "optimizer.", kCodes = "weight_codes", kScales = "weight_scales",
                           kSecond = "weight_second_scales", kLoraA = "lora_a", kLoraB = "lora_b";
constexpr size_t kNamesShown = 5;

/// A copy: what lies in a file is aligned to nothing.
at::Tensor tensor_of(const StoredTensor& stored) {
  at::Tensor tensor = at::empty(stored.sizes, at::TensorOptions().dtype(scalar_type_of(stored.dtype)));
  if (!stored.bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  return tensor;
}

/// "layers.0.mlp.up.weight_codes" -> "layers.0.mlp.up." for "weight_codes"; nothing for other endings.
std::optional<std::string> owner_of(const std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  const std::string owner = name.substr(0, name.size() - ending.size());
  return owner.empty() || owner.ends_with('.') ? std::optional(owner) : std::nullopt;
}

/// The other half of an adapter, where `name` is one of its two.
std::optional<std::string> other_half(const std::string& name) {
  if (const auto owner = owner_of(name, kLoraA)) return *owner + std::string(kLoraB);
  if (const auto owner = owner_of(name, kLoraB)) return *owner + std::string(kLoraA);
  return std::nullopt;
}

std::string companion_name(const char* kind, const std::string& parameter) {
  return std::string(kState) + kind + "." + parameter;
}

/// Whether `name` is of the scales of quantised codes, which `contains` knows.
template <typename Contains>
bool is_scales(const std::string& name, const Contains& contains) {
  for (std::string_view ending : {kScales, kSecond})
    if (const auto owner = owner_of(name, ending)) return contains(*owner + std::string(kCodes));
  return false;
}

bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16 || dtype == DType::float16;
}

/// What an adapter is scaled by, as the checkpoint says it.
double lora_scale(const std::filesystem::path& checkpoint) {
  double numbers[2] = {0, 0};
  const char* keys[] = {"lora.alpha", "lora.rank"};
  for (int i = 0; i < 2; ++i) {
    const std::string text = checkpoint_origin(checkpoint, keys[i]).value_or("");
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
    if (error != std::errc() || end != text.data() + text.size() || !(numbers[i] > 0))
      throw corrupt_file(checkpoint.string(), fmt::format("it has adapters, and its {} cannot be read", keys[i]));
  }
  return numbers[0] / numbers[1];
}

class Export {
 public:
  Export(const std::filesystem::path& checkpoint, const ExportOptions& options)
      : path_(checkpoint), options_(options), file_(SafetensorsFile::open(checkpoint)) {
    file_.verify();
    for (const auto& [name, stored] : file_.tensors()) {
      if (name.starts_with(kState)) continue;
      if (is_scales(name, [&](const std::string& other) { return file_.tensors().contains(other); })) continue;
      if (const auto other = other_half(name)) {
        this->stored(*other);
        adapters_ += name.ends_with(kLoraA);
        if (options.merge) continue;
      }
      add(name);
    }
    if (options.merge && adapters_ == 0)
      throw UserError(fmt::format("{} has no adapters to merge; leave --merge out", checkpoint.string()));
    if (options.merge) scale_ = lora_scale(checkpoint);
  }

  ExportReport write(const std::filesystem::path& out) {
    ExportReport report;
    std::vector<TensorDeclaration> declarations;
    // Once for the hashes, which stand before the tensors, and once to be written.
    for (const auto& [name, make] : made_) {
      const at::Tensor tensor = make();
      declarations.push_back(
          {name, dtype_of(tensor.scalar_type()), tensor.sizes().vec(), content_hash(bytes_of(tensor))});
      report.bytes += static_cast<int64_t>(tensor.nbytes());
    }
    SafetensorsWriter writer(out, declarations, {{"format", "pt"}});
    for (const auto& [name, make] : made_) {
      const at::Tensor tensor = make();
      writer.write(name, bytes_of(tensor));
    }
    writer.commit();
    report.tensors = static_cast<int64_t>(made_.size());
    report.merged = options_.merge ? adapters_ : 0;
    return report;
  }

 private:
  static std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
    return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
  }

  const StoredTensor& stored(const std::string& name) const {
    const auto found = file_.tensors().find(name);
    if (found == file_.tensors().end())
      throw corrupt_file(path_.string(), fmt::format("the tensor {} is missing", in_quotes(name)));
    return found->second;
  }

  void add(const std::string& name) {
    const auto codes = owner_of(name, kCodes), plain = owner_of(name, "weight");
    const std::string owner = codes.value_or(plain.value_or(""));
    const bool merged = options_.merge && (codes || plain) && file_.tensors().contains(owner + std::string(kLoraA));
    const DType held = codes ? DType::bfloat16 : stored(name).dtype;
    const at::ScalarType type = scalar_type_of(options_.dtype && is_floating(held) ? *options_.dtype : held);
    made_.emplace_back(codes ? owner + "weight" : name, [=, this] {
      if (!codes && !merged && type == scalar_type_of(held)) return tensor_of(stored(name));
      // Of the types only float64 has more bits than what the updates work on.
      if (!codes && !merged && held == DType::float64) return tensor_of(stored(name)).to(type);
      at::Tensor weight = codes ? taken_apart(owner) : whole(name);
      if (merged) weight = with_adapter(owner, weight);
      return weight.to(type).contiguous();
    });
  }

  /// A weight as float32, with what a 16-bit one has kept beside itself.
  at::Tensor whole(const std::string& name) const {
    const at::Tensor weight = tensor_of(stored(name));
    for (const char* kind : kCompanionKinds) {
      const auto found = file_.tensors().find(companion_name(kind, name));
      if (found == file_.tensors().end()) continue;
      const at::Tensor companion = tensor_of(found->second);
      if (!companion_fits(kind, weight.sizes(), weight.scalar_type(), companion.sizes(), companion.scalar_type()))
        throw corrupt_file(path_.string(),
                           fmt::format("the tensor {} does not fit {}", in_quotes(found->first), in_quotes(name)));
      return whole_weights(weight, companion);
    }
    return weight.to(at::kFloat);
  }

  at::Tensor taken_apart(const std::string& owner) const {
    ops::QuantizedTensors weight{
        tensor_of(stored(owner + std::string(kCodes))), tensor_of(stored(owner + std::string(kScales))), {}};
    if (file_.tensors().contains(owner + std::string(kSecond)))
      weight.second = tensor_of(stored(owner + std::string(kSecond)));
    if (weight.codes.dim() != 2)
      throw corrupt_file(path_.string(), fmt::format("the codes of {} are no matrix", in_quotes(owner)));
    // Two 4-bit codes a byte; widths are even (LinearImpl::quantize).
    const int64_t width = weight.codes.size(1) * (weight.codes.scalar_type() == at::kByte ? 2 : 1);
    return ops::dequantize_weight(weight, width, at::kFloat);
  }

  at::Tensor with_adapter(const std::string& owner, const at::Tensor& weight) const {
    const at::Tensor a = whole(owner + std::string(kLoraA)), b = whole(owner + std::string(kLoraB));
    if (a.dim() != 2 || b.dim() != 2 || a.size(0) != b.size(1) || b.size(0) != weight.size(0) ||
        a.size(1) != weight.size(1))
      throw corrupt_file(path_.string(), fmt::format("the adapter of {} does not fit its weight", in_quotes(owner)));
    return weight + at::mm(b, a) * scale_;
  }

  std::filesystem::path path_;
  ExportOptions options_;
  SafetensorsFile file_;
  std::vector<std::pair<std::string, std::function<at::Tensor()>>> made_;
  int64_t adapters_ = 0;
  double scale_ = 0;
};

std::string sizes_text(at::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

/// What a training's state wants of a file: the tensor of a name and of sizes.
struct Wanted {
  std::string name;
  std::vector<int64_t> sizes;
  DType dtype;  // a floating type stands for all of them: weights are cast
  bool optional = false;
  std::function<void(const at::Tensor&)> put;
};

/// Of what the state holds, what a file of weights has.
std::vector<Wanted> wanted_by(const NamedTensors& state) {
  std::map<std::string, at::Tensor> known(state.begin(), state.end());
  std::vector<Wanted> wanted;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with(kState) || is_scales(name, [&](const std::string& other) { return known.contains(other); }))
      continue;
    if (const auto owner = owner_of(name, kCodes)) {
      const ops::QuantizedTensors held{tensor, known.at(*owner + std::string(kScales)), [&] {
                                         const auto second = known.find(*owner + std::string(kSecond));
                                         return second == known.end() ? at::Tensor() : second->second;
                                       }()};
      const bool four_bits = tensor.scalar_type() == at::kByte;
      wanted.push_back({*owner + "weight",
                        {tensor.size(0), tensor.size(1) * (four_bits ? 2 : 1)},
                        DType::float32,
                        false,
                        [held, four_bits](const at::Tensor& weight) {
                          const ops::QuantizedTensors made =
                              ops::quantize_weight(weight, four_bits ? "nf4" : "int8", held.second.defined());
                          held.codes.copy_(made.codes);
                          held.scales.copy_(made.scales);
                          if (held.second.defined()) held.second.copy_(made.second);
                        }});
      continue;
    }
    wanted.push_back({name, tensor.sizes().vec(), dtype_of(tensor.scalar_type()), other_half(name).has_value(),
                      [parameter = tensor](const at::Tensor& weight) { parameter.copy_(weight); }});
    for (const char* kind : kCompanionKinds)
      // The next update begins from what the companion says: it is the file's weight too, not the one that was drawn.
      if (const auto companion = known.find(companion_name(kind, name)); companion != known.end())
        wanted.back().put = [parameter = tensor, companion = companion->second, kind](const at::Tensor& weight) {
          put_whole_weights(weight.to(at::kFloat).contiguous(), kind, parameter, companion);
        };
  }
  return wanted;
}

}  // namespace

ExportReport export_weights(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                            const ExportOptions& options) {
  const at::NoGradGuard no_grad;
  const CheckpointInfo info = describe_checkpoint(checkpoint);
  ExportReport report = Export(checkpoint, options).write(out);
  report.step = info.step;
  return report;
}

void load_weights(const std::filesystem::path& path, const NamedTensors& state) {
  const at::NoGradGuard no_grad;
  const SafetensorsFile file = SafetensorsFile::open(path);
  file.verify();
  const std::vector<Wanted> wanted = wanted_by(state);
  std::vector<std::string> problems;
  std::map<std::string, const Wanted*> by_name;
  for (const Wanted& each : wanted) {
    by_name[each.name] = &each;
    const auto found = file.tensors().find(each.name);
    if (found == file.tensors().end()) {
      if (!each.optional) problems.push_back(fmt::format("'{}' {} is missing", each.name, sizes_text(each.sizes)));
    } else if (found->second.sizes != each.sizes ||
               !(found->second.dtype == each.dtype || (is_floating(found->second.dtype) && is_floating(each.dtype)))) {
      problems.push_back(fmt::format("'{}' is {} {} in the file, {} {} in the model", each.name,
                                     name_of(found->second.dtype), sizes_text(found->second.sizes), name_of(each.dtype),
                                     sizes_text(each.sizes)));
    }
  }
  for (const auto& [name, stored] : file.tensors()) {
    if (!by_name.contains(name) && !name.starts_with(kState))
      problems.push_back(fmt::format("{} is in the file only", in_quotes(name)));
    else if (const auto other = other_half(name); other && !file.tensors().contains(*other))
      problems.push_back(fmt::format("{} is half an adapter: the file has no '{}'", in_quotes(name), *other));
  }
  if (!problems.empty()) {
    const size_t shown = std::min(problems.size(), kNamesShown);
    throw UserError(fmt::format(
        "model.weights: {} does not hold the weights of this model; nothing was loaded\n  {}{}", path.string(),
        fmt::join(problems.begin(), problems.begin() + static_cast<std::ptrdiff_t>(shown), "\n  "),
        problems.size() > shown ? fmt::format("\n  and {} more", problems.size() - shown) : ""));
  }
  for (const Wanted& each : wanted)
    if (const auto found = file.tensors().find(each.name); found != file.tensors().end())
      each.put(tensor_of(found->second));
}

}  // namespace plimsoll
