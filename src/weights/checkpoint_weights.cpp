#include "weights/checkpoint_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/hash.h"
#include "base/process.h"
#include "base/text.h"
#include "checkpoint/checkpoint_state.h"
#include "ops/layers/quantized_linear.h"
#include "ops/libtorch_types.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "run/search/process_budget.h"
#include "weights/weight_slots.h"

namespace plimsoll {
namespace {

/// Returns the scale of adapters, alpha / rank, from the checkpoint. Throws UserError (failure) if it cannot be read.
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

}  // namespace

namespace {

// Copies in pieces, so that the file is not resident as a whole.
void copy_bytes(const StoredTensor& stored, const at::Tensor& contiguous) {
  auto* to = static_cast<std::byte*>(contiguous.mutable_data_ptr());
  MappedFile::for_each_piece(stored.bytes, [&](std::span<const std::byte> piece) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  });
}

// Copies and casts in pieces, as a copy of the whole tensor would.
void copy_cast(const StoredTensor& stored, const at::Tensor& contiguous) {
  const at::ScalarType type = scalar_type_of(stored.dtype);
  const int64_t element = element_bytes(stored.dtype);
  const at::Tensor to = contiguous.view(-1);
  int64_t begin = 0;
  MappedFile::for_each_piece(stored.bytes, [&](std::span<const std::byte> piece) {
    const int64_t count = static_cast<int64_t>(piece.size()) / element;
    const at::Tensor part = at::empty({count}, type);  // tensors in a file are not aligned
    std::memcpy(part.mutable_data_ptr(), piece.data(), piece.size());
    to.narrow(0, begin, count).copy_(part);
    begin += count;
  });
}

}  // namespace

at::Tensor tensor_of(const StoredTensor& stored) {
  release_before(static_cast<int64_t>(stored.bytes.size()));
  at::Tensor tensor = at::empty(stored.sizes, at::TensorOptions().dtype(scalar_type_of(stored.dtype)));
  if (!stored.bytes.empty()) copy_bytes(stored, tensor);
  return tensor;
}

CheckpointWeights::CheckpointWeights(const std::filesystem::path& checkpoint, const ExportOptions& options)
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

const StoredTensor& CheckpointWeights::stored(const std::string& name) const {
  const auto found = file_.tensors().find(name);
  if (found == file_.tensors().end())
    throw corrupt_file(path_.string(), fmt::format("the tensor {} is missing", in_quotes(name)));
  return found->second;
}

void CheckpointWeights::add(const std::string& name) {
  const auto codes = owner_of(name, kCodes), plain = owner_of(name, "weight");
  const std::string owner = codes.value_or(plain.value_or(""));
  const bool merged = options_.merge && (codes || plain) && file_.tensors().contains(owner + std::string(kLoraA));
  const DType held = codes ? DType::bfloat16 : stored(name).dtype;
  const at::ScalarType type = scalar_type_of(options_.dtype && is_floating(held) ? *options_.dtype : held);
  const auto make = [=, this]() -> at::Tensor {
    if (!codes && !merged && type == scalar_type_of(held)) return tensor_of(stored(name));
    // Only float64 has more bits than the float32 in which updates are computed.
    if (!codes && !merged && held == DType::float64) return tensor_of(stored(name)).to(type);
    at::Tensor weight = codes ? dequantized(owner) : whole(name);
    if (merged) weight = with_adapter(owner, weight);
    return weight.to(type).contiguous();
  };
  making_.push_back(making_of(name, codes ? owner : "", merged ? owner : "", dtype_of(type)));
  made_.emplace_back(codes ? owner + "weight" : name, [=, this, bytes = making_.back().peak] {
    release_before(bytes);
    const at::Tensor made = make();
    file_.require_whole();
    return made;
  });
}

/// `codes_of`: the owner of quantized weights, or empty. `merged`: the owner of the adapter that is added, or empty.
CheckpointWeights::MakingBytes CheckpointWeights::making_of(const std::string& name, const std::string& codes_of,
                                                            const std::string& merged, DType type) const {
  const StoredTensor& held = stored(name);
  int64_t numbers = 1;
  for (int64_t size : held.sizes) numbers *= size;
  if (!codes_of.empty() && held.dtype == DType::uint8) numbers *= 2;  // 4-bit codes
  MakingBytes bytes{.numbers = numbers, .peak = 0, .made = numbers * element_bytes(type)};
  const auto in_file = static_cast<int64_t>(held.bytes.size());
  if (codes_of.empty() && merged.empty() && (type == held.dtype || held.dtype == DType::float64)) {
    bytes.peak = in_file + (type == held.dtype ? 0 : bytes.made);
    return bytes;
  }
  const int64_t whole = numbers * element_bytes(DType::float32);
  const int64_t adapter =
      merged.empty() ? 0
                     : 2 * (stored_bytes(merged + std::string(kLoraA)) + stored_bytes(merged + std::string(kLoraB)));
  const int64_t all_in_file = stored_bytes(codes_of.empty() ? name : codes_of);
  // Weights that are float32 in the file are not copied again.
  const bool is_whole = codes_of.empty() && held.dtype == DType::float32 && all_in_file == in_file;
  bytes.peak = whole + std::max({is_whole ? 0 : all_in_file, merged.empty() ? 0 : whole + adapter,
                                 type == DType::float32 ? 0 : bytes.made});
  return bytes;
}

// Returns the bytes in the file of a tensor or of the quantized tensor with this prefix, with what belongs to it.
int64_t CheckpointWeights::stored_bytes(const std::string& name) const {
  const auto bytes = [&](const std::string& each) {
    const auto found = file_.tensors().find(each);
    return found == file_.tensors().end() ? int64_t{0} : static_cast<int64_t>(found->second.bytes.size());
  };
  int64_t sum = bytes(name);
  for (const char* kind : kCompanionKinds) sum += bytes(companion_name(kind, name));
  for (const auto suffix : {kCodes, kScales, kSecond}) sum += bytes(name + std::string(suffix));
  return sum;
}

void CheckpointWeights::require_room(
    const Budget& budget, const std::function<int64_t(const std::string& name, int64_t numbers)>& beside) const {
  if (!budget.process || made_.empty()) return;
  int64_t largest = 0;
  size_t of = 0;
  for (size_t i = 0; i < making_.size(); ++i) {
    const MakingBytes& each = making_[i];
    const int64_t bytes = std::max(each.peak, each.made + beside(made_[i].first, each.numbers));
    if (bytes > largest) {
      largest = bytes;
      of = i;
    }
  }
  require_process_room(budget, largest, fmt::format("the export of the weight {}", in_quotes(made_[of].first)),
                       "raise it, or leave it out");
}

/// Returns a weight as float32; a 16-bit weight includes its companion.
at::Tensor CheckpointWeights::whole(const std::string& name) const {
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

at::Tensor CheckpointWeights::dequantized(const std::string& owner) const {
  ops::QuantizedTensors weight{
      tensor_of(stored(owner + std::string(kCodes))), tensor_of(stored(owner + std::string(kScales))), {}};
  if (file_.tensors().contains(owner + std::string(kSecond)))
    weight.second = tensor_of(stored(owner + std::string(kSecond)));
  if (weight.codes.dim() != 2)
    throw corrupt_file(path_.string(), fmt::format("the codes of {} are no matrix", in_quotes(owner)));
  // A byte has two 4-bit codes; widths are even (LinearImpl::quantize).
  const int64_t width = weight.codes.size(1) * (weight.codes.scalar_type() == at::kByte ? 2 : 1);
  return ops::dequantize_weight(weight, width, at::kFloat);
}

at::Tensor CheckpointWeights::with_adapter(const std::string& owner, const at::Tensor& weight) const {
  const at::Tensor a = whole(owner + std::string(kLoraA)), b = whole(owner + std::string(kLoraB));
  if (a.dim() != 2 || b.dim() != 2 || a.size(0) != b.size(1) || b.size(0) != weight.size(0) ||
      a.size(1) != weight.size(1))
    throw corrupt_file(path_.string(), fmt::format("the adapter of {} does not fit its weight", in_quotes(owner)));
  return at::mm(b, a).mul_(scale_).add_(weight);  // one more matrix than `weight`
}

namespace {

constexpr size_t kNamesShown = 5;

}  // namespace

ExportReport export_weights(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                            const ExportOptions& options, const Budget& budget) {
  const at::NoGradGuard no_grad;
  ExportReport report;
  report.step = describe_checkpoint(checkpoint).step;
  const CheckpointWeights weights(checkpoint, options);
  weights.require_room(budget, [](const std::string&, int64_t) { return 0; });
  std::vector<TensorDeclaration> declarations;
  // Tensors are computed twice: once for the hashes, which are stored before the tensors, and once to be written.
  for (const auto& [name, make] : weights.all()) {
    const at::Tensor tensor = make();
    declarations.push_back(
        {name, dtype_of(tensor.scalar_type()), tensor.sizes().vec(), content_hash(bytes_of(tensor))});
    report.bytes += static_cast<int64_t>(tensor.nbytes());
  }
  SafetensorsWriter writer(out, declarations, {{"format", "pt"}});
  for (const auto& [name, make] : weights.all()) writer.write(name, bytes_of(make()));
  writer.commit();
  report.tensors = static_cast<int64_t>(weights.all().size());
  report.merged = options.merge ? weights.adapters() : 0;
  return report;
}

void load_weights(const std::filesystem::path& path, const NamedTensors& state, const std::string& key,
                  const SlicedState& sliced) {
  const at::NoGradGuard no_grad;
  const SafetensorsFile file = SafetensorsFile::open(path);
  file.verify();
  const std::vector<WeightSlot> wanted = weight_slots(state, sliced);
  std::vector<std::string> problems;
  std::map<std::string, const WeightSlot*> by_name;
  for (const WeightSlot& each : wanted) {
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
    throw UserError(
        fmt::format("{}: {} does not hold the weights of this model; nothing was loaded\n  {}{}", key, path.string(),
                    fmt::join(problems.begin(), problems.begin() + static_cast<std::ptrdiff_t>(shown), "\n  "),
                    problems.size() > shown ? fmt::format("\n  and {} more", problems.size() - shown) : ""));
  }
  for (const WeightSlot& each : wanted)
    if (const auto found = file.tensors().find(each.name); found != file.tensors().end()) {
      const StoredTensor& stored = found->second;
      const at::Tensor& direct = each.copy_target;
      if (direct.defined() && direct.is_contiguous() && direct.device().is_cpu() && !stored.bytes.empty()) {
        if (direct.scalar_type() == scalar_type_of(stored.dtype))
          copy_bytes(stored, direct);
        else
          copy_cast(stored, direct);
        file.require_whole();
        continue;
      }
      const at::Tensor tensor = tensor_of(stored);
      file.require_whole();
      each.put(tensor);
    }
}

}  // namespace plimsoll
