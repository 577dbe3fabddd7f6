// A checkpoint: its description, and its tensors into a small training.
#include "checkpoint/checkpoint.h"

#include <ATen/ATen.h>

#include <cstring>

#include "checkpoint/checkpoint_state.h"
#include "checksums.h"
#include "fuzz.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors.h"

using namespace plimsoll;

namespace plimsoll::ops {
/// The conversion of packed optimizer state is not linked: it would take all operators.
at::Tensor unpacked(const Packed&, const at::Tensor&, bool) {
  throw UserError("packed state is not read here");
}
}  // namespace plimsoll::ops

namespace {

/// Returns the file with right checksums of its header and tensors, or "" if it cannot be read.
std::string with_checksums(std::string_view bytes) {
  try {
    const SafetensorsFile file = SafetensorsFile::open(fuzz::write("mutated.safetensors", bytes));
    std::map<std::string, std::string> metadata = file.metadata();
    std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("hash:"); });
    std::vector<TensorDeclaration> tensors;
    for (const auto& [name, tensor] : file.tensors())
      tensors.push_back({name, tensor.dtype, tensor.sizes, content_hash(tensor.bytes)});
    const std::filesystem::path path = fuzz::folder() / "mended.safetensors";
    SafetensorsWriter writer(path, tensors, metadata);
    for (const auto& [name, tensor] : file.tensors()) writer.write(name, tensor.bytes);
    writer.commit();
    const MappedFile mended = MappedFile::open(path);
    return {reinterpret_cast<const char*>(mended.data()), static_cast<size_t>(mended.size())};
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 4 == 0) return size;
  const std::string mended = with_checksums(fuzz::text(data, size));
  if (mended.empty() || mended.size() > max_size) return size;
  std::memcpy(data, mended.data(), mended.size());
  return mended.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path file = fuzz::write("step-00000003.safetensors", input);
  // Differences are a list, a line each.
  const fuzz::Rules rules{.lines = true, .longest = 10'000};
  if (!fuzz::reads(
          input, [&] { describe_checkpoint(file); }, rules))
    return 0;
  const std::map<std::string, std::string> origin = {{"model.type", "decoder"}, {"model.hidden_size", "4"}};
  fuzz::reads(
      input, [&] { checkpoint_origin(file, "model.type"); }, rules);
  fuzz::reads(
      input, [&] { require_same_model(origin, file); }, rules);
  const NamedTensors state = {{"weight", at::zeros({2, 3})},
                              {"bias", at::zeros({3}, at::kBFloat16)},
                              {"optimizer.exp_avg.weight", at::zeros({2, 3})},
                              {"optimizer.step", at::zeros({}, at::kLong)}};
  fuzz::reads(
      input, [&] { read_checkpoint(file, origin, state); }, rules);
  const DataOfJob of_job{.facts = {.files = {{.key = "data.files", .name = "a.txt", .identity = {}}},
                                   .settings = {{"data.shuffle", "true"}}}};
  fuzz::reads(
      input, [&] { read_checkpoint(file, origin, state, {}, {}, &of_job); }, rules);
  return 0;
}
