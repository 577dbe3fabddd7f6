#include "checkpoint/checkpoint_state.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/process.h"
#include "ops/formats.h"
#include "ops/libtorch_types.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr std::string_view kOptimizerPrefix = "optimizer.", kScales = "_scales";

/// The parts of "optimizer.exp_avg.layers.0.weight": "exp_avg" and "layers.0.weight".
struct StateName {
  std::string kind, parameter;
  std::string of(const std::string& other_kind) const {
    return std::string(kOptimizerPrefix) + other_kind + "." + parameter;
  }
};
std::optional<StateName> state_name(const std::string& name) {
  if (!name.starts_with(kOptimizerPrefix)) return std::nullopt;
  const size_t dot = name.find('.', kOptimizerPrefix.size());
  if (dot == std::string::npos) return std::nullopt;
  return StateName{name.substr(kOptimizerPrefix.size(), dot - kOptimizerPrefix.size()), name.substr(dot + 1)};
}

// A converter that lives as long as the conversions that it makes.
class Converter : public std::enable_shared_from_this<Converter> {
 public:
  Converter(const SafetensorsFile& file, const NamedTensors& state, std::vector<std::string>& refusals)
      : file_(file), refusals_(refusals) {
    for (const auto& [name, tensor] : state) wanted_[name] = tensor;
  }

  std::vector<StateConversion> run() {
    for (const auto& [name, tensor] : wanted_) {
      const auto parts = state_name(name);
      if (!parts) continue;
      if (parts->kind == "exp_avg" || parts->kind == "exp_avg_sq" || parts->kind == "momentum") convert_mean(*parts);
    }
    for (const auto& [name, tensor] : wanted_)
      if (!name.starts_with(kOptimizerPrefix)) convert_companion(name, tensor);
    for (const auto& [formats, refused] : refused_means_)
      refusals_.push_back(fmt::format(
          "the optimizer state is {} in the job, {} in the checkpoint, and cannot be converted exactly ({}); set {}",
          formats.first, formats.second, refused.text(),
          either_of("optimizer.state_dtype", formats.second == "float16" ? "float32" : formats.second, "float32")));
    for (const auto& [updates, refused] : refused_companions_)
      refusals_.push_back(fmt::format(
          "the weights have more bits in the checkpoint (optimizer.weight_update was {}) than in the job ({}; {}); "
          "set {}",
          updates.second, updates.first, refused.text(),
          either_of("optimizer.weight_update", updates.second, "master")));
    // The conversions read through this object, so they keep it alive.
    for (StateConversion& each : conversions_)
      if (each.apply) each.apply = [self = shared_from_this(), apply = std::move(each.apply)] { apply(); };
    return std::move(conversions_);
  }

 private:
  bool stored(const std::string& name) const { return file_.tensors().contains(name); }
  bool same(const std::string& name) const {
    const auto found = file_.tensors().find(name);
    const auto wanted = wanted_.find(name);
    return found != file_.tensors().end() && wanted != wanted_.end() &&
           found->second.dtype == dtype_of(wanted->second.scalar_type()) &&
           found->second.sizes == wanted->second.sizes().vec();
  }

  /// Returns a copy of a tensor of the file, whose bytes have no alignment.
  at::Tensor read(const std::string& name) const {
    const StoredTensor& stored = file_.tensors().at(name);
    release_before(static_cast<int64_t>(stored.bytes.size()));
    at::Tensor tensor = at::empty(stored.sizes, at::TensorOptions().dtype(scalar_type_of(stored.dtype)));
    auto* to = stored.bytes.empty() ? nullptr : static_cast<std::byte*>(tensor.mutable_data_ptr());
    MappedFile::for_each_piece(stored.bytes, [&](std::span<const std::byte> piece) {
      std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    });
    return tensor;
  }

  /// Returns "KEY: BEFORE, as it was, or KEY: ALWAYS", two values with which the checkpoint can be resumed.
  static std::string either_of(const char* key, const std::string& before, const char* always) {
    const std::string any = fmt::format("{}: {}", key, always);
    return before == always ? any : fmt::format("{}: {}, as it was, or {}", key, before, any);
  }

  /// Returns the format of a mean in the file, as optimizer.state_dtype has it: "float32", "8bit", ...
  std::string format_in_file(const StateName& name) const {
    const DType dtype = file_.tensors().at(name.of(name.kind)).dtype;
    if (!stored(name.of(name.kind + std::string(kScales)))) return std::string(name_of(dtype));
    return dtype == DType::uint8 ? "8bit" : "4bit";
  }
  std::string format_in_job(const StateName& name) const {
    const at::Tensor& tensor = wanted_.at(name.of(name.kind));
    if (!wanted_.contains(name.of(name.kind + std::string(kScales))))
      return std::string(name_of(dtype_of(tensor.scalar_type())));
    return tensor.scalar_type() == at::kByte ? "8bit" : "4bit";
  }

  void convert_mean(const StateName& name) {
    const std::string mean = name.of(name.kind), scales = name.of(name.kind + std::string(kScales));
    const bool packed_there = stored(scales), packed_here = wanted_.contains(scales);
    if (!stored(mean) || (same(mean) && packed_there == packed_here) || !same(name.parameter)) return;
    const at::Tensor target = wanted_.at(mean);
    const auto refuse = [&] {
      refused_means_[{format_in_job(name), format_in_file(name)}].add(mean);
      conversions_.push_back({packed_there ? std::vector{mean, scales} : std::vector{mean},
                              packed_here ? std::vector{mean, scales} : std::vector{mean},
                              {}});
    };
    if (packed_here) return refuse();
    if (!packed_there) {
      const StoredTensor& source = file_.tensors().at(mean);
      if (source.sizes != target.sizes().vec()) return;
      if ((source.dtype != DType::bfloat16 && source.dtype != DType::float16) || target.scalar_type() != at::kFloat)
        return refuse();
      conversions_.push_back({{mean}, {mean}, [=, this] { at::Tensor(target).copy_(read(mean)); }});
      return;
    }
    const bool squares = name.kind == "exp_avg_sq";
    const StoredTensor &codes = file_.tensors().at(mean), &stored_scales = file_.tensors().at(scales);
    const bool eight = codes.dtype == DType::uint8, four = codes.dtype == DType::int8;
    const int64_t count = target.numel();
    const auto format = eight ? ops::Format::bits8 : ops::Format::bits4;
    if ((!eight && !four) || stored_scales.dtype != DType::uint8 ||
        static_cast<int64_t>(codes.bytes.size()) != (eight ? count : ops::bytes_of_bits4(count)) ||
        static_cast<int64_t>(stored_scales.bytes.size()) != ops::scales_of(format, count) ||
        (eight && codes.sizes != target.sizes().vec()))
      return;  // the sizes show that it belongs to another parameter
    if (target.scalar_type() != at::kFloat &&
        (target.scalar_type() != at::kBFloat16 || !bfloat16_holds(read(scales), eight, squares)))
      return refuse();
    conversions_.push_back({{mean, scales}, {mean}, [=, this] {
                              at::Tensor codes_in_memory = read(mean);
                              const at::Tensor like =  // the host converts
                                  target.device().is_cpu() ? target : at::empty_like(target, at::device(at::kCPU));
                              if (eight) {
                                // Codes are in the order of indices in the file; scales are in the order of memory.
                                const at::Tensor ordered = at::empty_like(like, like.options().dtype(at::kByte));
                                codes_in_memory = ordered.copy_(codes_in_memory);
                              }
                              at::Tensor(target).copy_(ops::unpacked({codes_in_memory, read(scales)}, like, squares));
                            }});
  }

  /// Returns true if bfloat16 holds the smallest values: the scale of a block times a power of two. The smallest value
  /// of bfloat16 is 2^-133.
  static bool bfloat16_holds(const at::Tensor& scales, bool eight, bool squares) {
    const int smallest = eight ? (squares ? -17 : -9) : (squares ? -3 : -1);
    const auto* bytes = scales.const_data_ptr<uint8_t>();
    for (int64_t i = 0; i < scales.numel(); ++i)
      if (bytes[i] > 0 && bytes[i] - 127 + smallest < -133) return false;
    return true;
  }

  std::string companion_in(const auto& names, const StateName& name) const {
    for (const char* kind : kCompanionKinds)
      if (names.contains(name.of(kind))) return kind;
    return "";
  }

  void convert_companion(const std::string& parameter, const at::Tensor& weights) {
    const StateName name{"", parameter};
    const std::string here = companion_in(wanted_, name), there = companion_in(file_.tensors(), name);
    if (here == there || !same(parameter)) return;
    // A companion that does not fit the parameter is not converted: it counts as a tensor of the file only.
    if (!there.empty()) {
      const StoredTensor& companion = file_.tensors().at(name.of(there));
      if (!companion_fits(there, weights.sizes(), weights.scalar_type(), companion.sizes,
                          scalar_type_of(companion.dtype)))
        return;
    }
    const auto update_of = [](const std::string& companion) {
      return companion == "remainder"      ? "split"
             : companion == "compensation" ? "kahan"
             : companion == "master"       ? "master"
                                           : "stochastic or nearest";
    };
    StateConversion conversion;
    if (!there.empty()) conversion.from = {name.of(there)};
    if (!here.empty()) conversion.to = {name.of(here)};
    const bool exact = here == "master" || here == "remainder"
                           ? there != "compensation" || float32_holds(read(parameter), read(name.of(there)))
                           : there.empty();
    if (!exact) {
      refused_companions_[{update_of(here), update_of(there)}].add(parameter);
      conversions_.push_back(conversion);
      return;
    }
    const at::Tensor target = wanted_.at(name.of(here));
    conversion.apply = [=, this] {
      const at::Tensor whole = whole_weights(read(parameter), there.empty() ? at::Tensor() : read(name.of(there)));
      // Without a companion in the file, the parameter is the exact value, and stays as read.
      if (here == "compensation")
        at::Tensor(target).zero_();
      else if (here == "master")
        at::Tensor(target).copy_(whole);
      else
        put_whole_weights(whole, here, weights, target);
    };
    conversions_.push_back(conversion);
  }

  static bool float32_holds(const at::Tensor& weights, const at::Tensor& compensation) {
    const at::Tensor exact = weights.to(at::kDouble) + compensation.to(at::kDouble);
    return at::equal(exact.to(at::kFloat).to(at::kDouble), exact);
  }

  /// The tensors that are refused for one reason: their number and the first name.
  struct Refused {
    size_t count = 0;
    std::string first = {};
    void add(const std::string& name) {
      if (++count == 1) first = name;
    }
    /// Returns "40 tensors, first 'optimizer.exp_avg.embedding'".
    std::string text() const {
      return count == 1 ? fmt::format("1 tensor, '{}'", first) : fmt::format("{} tensors, first '{}'", count, first);
    }
  };
  using Difference = std::pair<std::string, std::string>;  // text for the job, text for the checkpoint

  const SafetensorsFile& file_;
  std::vector<std::string>& refusals_;
  std::map<std::string, at::Tensor> wanted_;
  std::vector<StateConversion> conversions_;
  std::map<Difference, Refused> refused_means_, refused_companions_;
};

}  // namespace

std::vector<StateConversion> state_conversions(const SafetensorsFile& file, const NamedTensors& state,
                                               std::vector<std::string>& refusals) {
  return std::make_shared<Converter>(file, state, refusals)->run();
}

bool companion_fits(const std::string& kind, at::IntArrayRef parameter_sizes, at::ScalarType parameter_type,
                    at::IntArrayRef sizes, at::ScalarType type) {
  if (sizes != parameter_sizes) return false;
  if (kind == "master") return type == at::kFloat;
  if (kind == "remainder") return type == at::kShort && parameter_type == at::kBFloat16;
  return kind == "compensation" && type == parameter_type;
}

at::Tensor whole_weights(const at::Tensor& parameter, const at::Tensor& companion) {
  if (!companion.defined()) return parameter.to(at::kFloat);
  if (companion.scalar_type() == at::kFloat) return companion.clone();
  if (companion.scalar_type() == at::kShort) {
    const at::Tensor upper = at::bitwise_left_shift(parameter.view(at::kShort).to(at::kInt), 16);
    return (upper + companion.to(at::kInt)).view(at::kFloat);
  }
  return parameter.to(at::kFloat) + companion.to(at::kFloat);
}

void put_whole_weights(const at::Tensor& whole, const std::string& kind, const at::Tensor& parameter,
                       const at::Tensor& companion) {
  if (kind == "remainder") {
    // The parameter is the upper half rounded to nearest, ties away from zero. copy_() would round ties to even.
    const at::Tensor bits = whole.view(at::kInt);
    const at::Tensor upper = at::bitwise_right_shift(bits + 0x8000, 16);
    parameter.copy_(upper.to(at::kShort).view(at::kBFloat16));
    companion.copy_((bits - at::bitwise_left_shift(upper, 16)).to(at::kShort));
    return;
  }
  const at::Tensor rounded = whole.to(parameter.scalar_type());
  parameter.copy_(rounded);
  if (kind == "master")
    companion.copy_(whole);
  else if (kind == "compensation")
    companion.copy_(whole - rounded.to(at::kFloat));
  else
    throw InternalError("no such companion");
}

namespace {

constexpr int64_t kPiece = MiB;

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

}  // namespace

std::vector<int64_t> SlicedState::sizes_of(const std::string& name, const at::Tensor& tensor) const {
  return is_slice(name) ? whole_sizes.at(name) : tensor.sizes().vec();
}

void for_each_piece(const std::string& name, const at::Tensor& tensor, const SlicedState& sliced,
                    const std::function<void(std::span<const std::byte>)>& take) {
  if (!sliced.is_slice(name)) {
    // Copies layouts such as channels_last, and tensors on a device, one at a time.
    const auto require_state = [&] {
      if (sliced.require_state) sliced.require_state();
    };
    try {
      take(bytes_of(tensor.cpu().contiguous()));
    } catch (...) {
      require_state();  // write() refuses lost bytes as a bad address; they also differ from those that were hashed
      throw;
    }
    require_state();
    return;
  }
  Exchange& exchange = *sliced.exchange;
  const at::Tensor own = tensor.cpu().contiguous();
  const auto slice = static_cast<int64_t>(own.nbytes());
  auto whole = static_cast<int64_t>(own.element_size());
  for (const int64_t size : sliced.whole_sizes.at(name)) whole *= size;
  for (int root = 0; root < exchange.size(); ++root) {
    const int64_t end = std::clamp<int64_t>(whole - root * slice, 0, slice);
    for (int64_t begin = 0; begin < end; begin += kPiece) {
      const at::Tensor piece = at::empty({std::min(kPiece, end - begin)}, at::kByte);
      if (exchange.rank() == root) {
        std::memcpy(piece.mutable_data_ptr(), bytes_of(own).data() + begin, piece.nbytes());
        if (sliced.require_state) sliced.require_state();
      }
      exchange.broadcast(piece, root);
      if (exchange.rank() == 0) take(bytes_of(piece));
    }
  }
}

void send_slices(const NamedTensors& state, const SlicedState& sliced) {
  // Sent twice, because the writer needs them twice: for the checksums, and for the file.
  for (int pass = 0; pass < 2; ++pass)
    for (const auto& [name, tensor] : in_file_order(state))
      if (sliced.is_slice(name)) for_each_piece(name, tensor, sliced, [](std::span<const std::byte>) {});
}

NamedTensors in_file_order(NamedTensors tensors) {
  std::ranges::stable_sort(tensors, std::greater(), [](const auto& entry) { return entry.second.element_size(); });
  return tensors;
}

}  // namespace plimsoll
