// Tests losses of small random models with one key of config.json changed against those of transformers
// (tests/weights/config_pairs.json, made by bench/config_pairs.py). Weights and the text are functions of their names.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/types.h>

#include <random>

#include "models/decoder.h"
#include "models/mamba.h"
#include "test_files.h"
#include "weights/families.h"
#include "weights/family_files.h"
#include "weights/mamba_family.h"
#include "weights/model_weights.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr int64_t kTokens = 24, kWindows = 2;
constexpr size_t kDrawn = 20;

uint64_t hash_of(const std::string& name) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char byte : name) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return value;
}

/// Returns `count` numbers in [-1, 1): the sequence of splitmix64 that begins with `seed`.
std::vector<double> mixed(uint64_t seed, int64_t count) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    numbers.push_back(static_cast<double>(z >> 11) * 0x1p-52 - 1);
  }
  return numbers;
}

at::Tensor weight_of(const std::string& name, const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const at::Tensor values = torch::tensor(mixed(hash_of(name), count), at::kDouble).view(sizes);
  const auto ends = [&](const std::vector<std::string>& endings) {
    return std::ranges::any_of(endings, [&](const std::string& each) { return name.ends_with(each); });
  };
  const bool vector = sizes.size() == 1;
  if (ends({"norm.weight", "norm_f.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight", "layernorm.weight"}) ||
      (vector && ends({"A_log", ".D"})))
    return (1 + 0.25 * values).to(at::kFloat);
  if (vector) return (0.3 * values).to(at::kFloat);
  return (values * 3 / std::sqrt(static_cast<double>(sizes.back()))).to(at::kFloat);
}

at::Tensor text() {
  std::vector<int64_t> bytes;
  for (const double each : mixed(7, kTokens * kWindows + 1))
    bytes.push_back(32 + static_cast<int64_t>((each + 1) * 47.5));
  return torch::tensor(bytes);
}

class ConfigPairs : public ::testing::Test {
 protected:
  /// Returns the loss of the configuration in the folder, with the weights of its names.
  double loss() {
    const bool mamba = read_json(folder_ / "config.json").at("model_type") == "mamba2";
    const at::NoGradGuard no_grad;
    const at::Tensor all = text(), tokens = all.narrow(0, 0, kTokens * kWindows).view({kWindows, kTokens}),
                     targets = all.narrow(0, 1, kTokens * kWindows).view({kWindows, kTokens});
    if (mamba) {
      const MambaConfig config = weights::read_mamba_config(folder_.path());
      write(weights::mamba_layout_of(config));
      model::MambaLmImpl model(config);
      load_mamba_weights(folder_.path(), {}, parameters_of(model));
      return model.loss(tokens, targets).item<double>();
    }
    const weights::Architecture read = weights::read_architecture(folder_.path());
    write(weights::layout_of(read.family, read.config));
    model::DecoderImpl model(read.config, kTokens);
    load_decoder_weights(folder_.path(), {}, parameters_of(model));
    return model.loss(tokens, targets).item<double>();
  }

  void write(const weights::Layout& layout) {
    std::map<std::string, at::Tensor> tensors;
    for (const weights::Parameter& parameter : layout.parameters)
      for (const weights::Piece& piece : parameter.pieces) tensors[piece.name] = weight_of(piece.name, piece.sizes);
    write_tensors(folder_ / "model.safetensors", tensors);
  }

  TempFolder folder_;
};

TEST_F(ConfigPairs, LossesAreThoseOfTransformersOrTheKeyIsNamed) {
  const json all = read_json(fs::path(PLIMSOLL_SOURCE_DIR) / "tests" / "weights" / "config_pairs.json");
  std::vector<json> pairs = all.at("pairs");
  ASSERT_GE(pairs.size(), 300u);
  const auto seed = static_cast<unsigned>(std::random_device()());
  fmt::print("seed {}\n", seed);
  std::ranges::shuffle(pairs, std::mt19937(seed));
  pairs.resize(kDrawn);
  for (const json& pair : pairs) {
    SCOPED_TRACE(pair.dump());
    const std::string key = pair.at("key");
    json config = all.at("bases").at(pair.at("base").get<std::string>());
    config[key] = pair.at("value");
    put_file(folder_ / "config.json", config.dump());
    if (pair.at("refused")) {
      // Kinds of rotary positions are named by their own key.
      const std::string message = user_error_of([&] { loss(); });
      EXPECT_TRUE(message.find(key) != std::string::npos) << message;
    } else {
      EXPECT_NEAR(loss(), pair.at("loss").get<double>(), 1e-5 * pair.at("loss").get<double>());
    }
  }
}

}  // namespace
}  // namespace plimsoll
