// Declares random jobs of every kind of model, small enough to be recorded in milliseconds, for properties of all jobs.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <random>
#include <string>

#include "plimsoll/options.h"

namespace plimsoll::testing {

class RandomJobs {
 public:
  explicit RandomJobs(unsigned seed) : random_(seed) {}

  /// Returns the job file, with data that is never read. `keys`: additional keys, one a line.
  std::string text(const std::string& keys = "") {
    const int kind = static_cast<int>(random_() % 8);
    std::string text;
    switch (kind) {
      case 4:
        text = mamba();
        break;
      case 5:
        text = stimuli();
        break;
      case 6:
        text = random_() % 2 ? gesture() : slices();
        break;
      case 7:
        text = clips();
        break;
      default:
        text = decoder();
        break;
    }
    text +=
        fmt::format("optimizer: {{name: {}, learning_rate: 1.0e-3}}\n", pick({"adamw", "adamw", "adamw_8bit", "sgd"}));
    text += fmt::format("max_grad_norm: {}\nmax_steps: 1\ndevice: cuda\nmemory_budget: 1GiB\n", pick({"0", "1.0"}));
    return text + keys;
  }

  std::string pick(std::initializer_list<const char*> list) { return list.begin()[random_() % list.size()]; }
  int64_t number(std::initializer_list<int64_t> list) { return list.begin()[random_() % list.size()]; }
  std::mt19937& random() { return random_; }

 private:
  std::string decoder() {
    const int64_t heads = number({2, 4}), width = heads * number({8, 16, 32});
    std::string text = fmt::format(
        "model: {{type: decoder, vocab_size: {}, hidden_size: {}, num_layers: {}, num_heads: {}, activation: {}, "
        "tie_embeddings: {}, dropout: {}}}\n",
        number({64, 512, 2048}), width, 1 + random_() % 2, heads, pick({"swiglu", "gelu"}), pick({"true", "false"}),
        pick({"0", "0.1"}));
    text += fmt::format("data: {{type: synthetic, samples: 8, sequence_length: {}, validation_fraction: 0}}\n",
                        number({8, 32, 128}));
    const int frozen = static_cast<int>(random_() % 4);
    if (frozen <= 1) text += fmt::format("lora: {{modules: [layers], rank: {}}}\n", pick({"2", "8"}));
    if (frozen == 1) text += "quantize: {modules: [layers], format: nf4, double_scales: true}\n";
    return text;
  }

  std::string mamba() {
    return fmt::format(
        "model: {{type: mamba, vocab_size: 256, hidden_size: {}, num_layers: {}, head_dim: 16, state_size: 16, "
        "chunk_size: "
        "16}}\ndata: {{type: synthetic, samples: 8, sequence_length: {}, validation_fraction: 0}}\n",
        pick({"32", "64"}), 1 + random_() % 2, pick({"16", "64"}));
  }

  std::string gesture() {
    return fmt::format(
        "model: {{type: gesture_ssm, channels: 6, num_classes: 4, hidden_dim: 32, d_state: 16, num_layers: {}, "
        "head_dim: "
        "16, chunk_size: 16, pooling_scales: 2}}\ndata: {{type: synthetic, samples: 8, length: {}}}\n",
        2 + random_() % 2, pick({"32", "100"}));
  }

  std::string slices() {
    return fmt::format(
        "model: {{type: prompt_segmentation, image_size: {}, channels: 1, prompt_length: 8, encoder: {{widths: [16, "
        "16, "
        "32, 32], depths: [1, 1, 1, 1], num_heads: [2, 2, 2], windows: [2, 2, 2]}}, llm: {{vocab_size: 256, "
        "hidden_size: "
        "32, num_layers: 1, num_heads: 2}}, decoder: {{width: 32, depth: 1, num_heads: 2, intermediate_size: 64}}}}\n"
        "data: {{type: synthetic, samples: 8}}\n",
        pick({"64", "96"}));
  }

  std::string clips() {
    return fmt::format(
        "model: {{type: video_llm, image_size: 24, tokens_per_frame: 4, vision: {{patch: 12, width: 32, depth: {}, "
        "num_heads: 2}}, llm: {{vocab_size: 256, hidden_size: 32, num_layers: {}, num_heads: 2}}}}\n"
        "data: {{type: synthetic, samples: 8, max_frames: {}, sequence_length: 32}}\n",
        1 + random_() % 2, 1 + random_() % 2, pick({"2", "4"}));
  }

  std::string stimuli() {
    return fmt::format(
        "model: {{type: fmri_autoencoder, bottleneck_dim: 16, voxels: {}, video: {{frames: 2, size: 16, patch: 8, "
        "width: "
        "32, depth: 1, decoder_depth: 1, num_heads: 2}}, audio: {{frames: 8, mels: 8, patch: 4, width: 16, depth: 1, "
        "decoder_depth: 1, num_heads: 2}}, text: {{tokens: 2, features: 32, width: 32, depth: 1, decoder_depth: 1, "
        "num_heads: 2}}, fusion: {{width: 32, depth: 1}}, fmri: {{width: 32, depth: 1, decoder_depth: 1}}, dropout: "
        "{}}}\ndata: {{type: synthetic, samples: 8}}\n",
        pick({"128", "1024"}), pick({"0", "0.1"}));
  }

  std::mt19937 random_;
};

}  // namespace plimsoll::testing
