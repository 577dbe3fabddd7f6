#include "weights/weights_file.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/content_hash.h"
#include "base/quoted.h"
#include "ops/dtypes.h"
#include "plimsoll/error.h"
#include "weights/checkpoint_weights.h"
#include "weights/weight_slots.h"

namespace plimsoll {
namespace {

constexpr size_t kNamesShown = 5;

}  // namespace

ExportReport export_weights(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                            const ExportOptions& options) {
  const at::NoGradGuard no_grad;
  ExportReport report;
  report.step = describe_checkpoint(checkpoint).step;
  const CheckpointWeights weights(checkpoint, options);
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
      const at::Tensor tensor = tensor_of(found->second);
      file.require_whole();
      each.put(tensor);
    }
}

}  // namespace plimsoll
