// Tests weights whose files another program cuts short while they are loaded or exported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "cut_files.h"
#include "models/decoder.h"
#include "rounds.h"
#include "weights/checkpoint_weights.h"
#include "weights/families.h"
#include "weights/family_files.h"
#include "weights/model_weights.h"

namespace plimsoll {
namespace {

using Numbers = std::vector<float>;

Numbers numbers_of(const NamedTensors& state) {
  Numbers numbers;
  for (const auto& [name, tensor] : state) {
    const at::Tensor flat = tensor.to(at::kFloat).contiguous();
    numbers.insert(numbers.end(), flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel());
  }
  return numbers;
}

class CutWeights : public ::testing::Test {
 protected:
  /// `load` copies a file's weights into the parameters of a llama.
  void expect_no_zeros(const std::filesystem::path& file, const std::function<void(const NamedTensors& state)>& load) {
    const auto read = [&] {
      load(state_);
      return numbers_of(state_);
    };
    expect_no_zeros_when_cut<Numbers>(file, read);
    expect_no_zeros_when_cut_at_random<Numbers>(file, read, testing::rounds(10));
  }

  const TempFolder folder_;
  const std::filesystem::path llama_ = single_file_copy("llama", folder_);
  model::DecoderImpl model_{weights::read_architecture(llama_).config, 12};
  const NamedTensors state_ = parameters_of(model_);
};

TEST_F(CutWeights, OfOneFileAreErrors) {
  expect_no_zeros(llama_ / "model.safetensors",
                  [&](const NamedTensors& state) { load_decoder_weights(llama_, {}, state); });
}

TEST_F(CutWeights, OfSeveralFilesAreErrors) {
  std::map<std::string, at::Tensor> parts[2];
  nlohmann::json map;
  const std::map<std::string, at::Tensor> tensors = tensors_in(llama_ / "model.safetensors");
  for (const auto& [name, tensor] : tensors) {
    const size_t part = parts[0].size() < tensors.size() / 2 ? 0 : 1;
    parts[part].emplace(name, tensor);
    map[name] = part == 0 ? "a.safetensors" : "b.safetensors";
  }
  write_tensors(llama_ / "a.safetensors", parts[0]);
  write_tensors(llama_ / "b.safetensors", parts[1]);
  std::filesystem::remove(llama_ / "model.safetensors");
  put_file(llama_ / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  for (const char* name : {"a.safetensors", "b.safetensors", "model.safetensors.index.json"}) {
    SCOPED_TRACE(name);
    expect_no_zeros(llama_ / name, [&](const NamedTensors& state) { load_decoder_weights(llama_, {}, state); });
  }
}

TEST_F(CutWeights, OfGgufFilesAreErrors) {
  const auto file = put_file(folder_ / "llama.gguf", llama_gguf().text());
  expect_no_zeros(file, [&](const NamedTensors& state) { load_decoder_weights(file, {}, state); });
}

TEST_F(CutWeights, OfAFileOfOursAreErrors) {
  const auto file = folder_ / "ours.safetensors";
  write_tensors(file, {state_.begin(), state_.end()});
  expect_no_zeros(file, [&](const NamedTensors& state) { load_weights(file, state); });
}

TEST_F(CutWeights, OfACheckpointAreNotExported) {
  const auto file = folder_ / "checkpoint.safetensors";
  write_checkpoint(file, {}, state_);
  const auto read = [&] {
    export_weights(file, folder_ / "out.safetensors", {});
    return get_file(folder_ / "out.safetensors");
  };
  expect_no_zeros_when_cut<std::string>(file, read);
  expect_no_zeros_when_cut_at_random<std::string>(file, read, testing::rounds(10));
}

}  // namespace
}  // namespace plimsoll
