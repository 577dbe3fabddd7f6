#include "fine_tuning/foreign_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace plimsoll::model {
namespace {

struct ForeignName {
  std::string_view name;                 ///< last part of the foreign name, in small letters
  std::array<std::string_view, 3> ours;  ///< possible last parts of our paths that hold the layer
  std::string_view meaning;
};

constexpr std::string_view kOneMatrix = "query, key and value are one matrix";
constexpr std::string_view kGate = "a gate and what it gates are one matrix";
constexpr std::string_view kInner = "all projections into a Mamba block are one matrix";
constexpr std::string_view kRows = "it is a parameter and no linear layer: train it whole, or leave it frozen";

constexpr std::array kNames = {
    // Attention: Llama, Mistral, Qwen, OPT; BERT; GPT-2; GPT-NeoX; MPT; torch.
    ForeignName{"q_proj", {"qkv", "q"}, kOneMatrix},
    ForeignName{"k_proj", {"qkv", "k"}, kOneMatrix},
    ForeignName{"v_proj", {"qkv", "v"}, kOneMatrix},
    ForeignName{"qkv_proj", {"qkv"}, kOneMatrix},
    ForeignName{"query", {"qkv", "q"}, kOneMatrix},
    ForeignName{"key", {"qkv", "k"}, kOneMatrix},
    ForeignName{"value", {"qkv", "v"}, kOneMatrix},
    ForeignName{"query_key_value", {"qkv"}, kOneMatrix},
    ForeignName{"c_attn", {"qkv"}, kOneMatrix},
    ForeignName{"wqkv", {"qkv"}, kOneMatrix},
    ForeignName{"wq", {"qkv", "q"}, kOneMatrix},
    ForeignName{"wk", {"qkv", "k"}, kOneMatrix},
    ForeignName{"wv", {"qkv", "v"}, kOneMatrix},
    ForeignName{"in_proj_weight", {"qkv"}, kOneMatrix},
    ForeignName{"in_proj", {"in", "qkv"}, ""},
    ForeignName{"out_proj", {"out"}, ""},
    ForeignName{"o_proj", {"out"}, ""},
    ForeignName{"wo", {"out"}, ""},
    ForeignName{"dense", {"out", "up", "down"}, ""},
    ForeignName{"c_proj", {"out", "down"}, ""},
    // Feed-forwards.
    ForeignName{"gate_proj", {"up"}, kGate},
    ForeignName{"up_proj", {"up"}, kGate},
    ForeignName{"gate_up_proj", {"up"}, ""},
    ForeignName{"c_fc", {"up"}, ""},
    ForeignName{"fc1", {"up"}, ""},
    ForeignName{"fc_in", {"up"}, ""},
    ForeignName{"dense_h_to_4h", {"up"}, ""},
    ForeignName{"w1", {"up"}, kGate},
    ForeignName{"w3", {"up"}, kGate},
    ForeignName{"down_proj", {"down"}, ""},
    ForeignName{"fc2", {"down"}, ""},
    ForeignName{"fc_out", {"down"}, ""},
    ForeignName{"dense_4h_to_h", {"down"}, ""},
    ForeignName{"w2", {"down"}, ""},
    // Mamba.
    ForeignName{"x_proj", {"in"}, kInner},
    ForeignName{"dt_proj", {"in"}, kInner},
    // Rows of the vocabulary, positions.
    ForeignName{"embed_tokens", {"embedding"}, kRows},
    ForeignName{"word_embeddings", {"embedding"}, kRows},
    ForeignName{"wte", {"embedding"}, kRows},
    ForeignName{"wpe", {"positions"}, kRows},
    ForeignName{"embed_positions", {"positions"}, kRows},
    ForeignName{"position_embedding", {"positions"}, kRows},
    // A tied embedding has no separate head.
    ForeignName{"lm_head", {"head", "embedding"}, kRows},
    ForeignName{"embed_out", {"head", "embedding"}, kRows},
    // Norms.
    ForeignName{"input_layernorm", {"attention_norm", "norm"}, ""},
    ForeignName{"ln_1", {"attention_norm"}, ""},
    ForeignName{"post_attention_layernorm", {"mlp_norm"}, ""},
    ForeignName{"ln_2", {"mlp_norm"}, ""},
    ForeignName{"ln_f", {"norm"}, ""},
    // PEFT's name for all linear layers.
    ForeignName{"all-linear", {}, ""},
    ForeignName{"all_linear", {}, ""},
};

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('.') + 1);  // npos + 1 is 0
}

const ForeignName* known(const std::string& pattern) {
  std::string name(last_part(pattern));
  if (name == "weight" && pattern.size() > name.size())
    name = last_part(std::string_view(pattern).substr(0, pattern.size() - name.size() - 1));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = std::ranges::find(kNames, name, &ForeignName::name);
  return found == kNames.end() ? nullptr : &*found;
}

// Returns "layers.3.attention.qkv" as "layers.*.attention.qkv".
std::string with_stars(const std::string& path) {
  std::string pattern;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool number =
        !part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
    pattern += (begin == 0 ? "" : ".") + (number ? "*" : part);
    begin = end + 1;
  }
  return pattern;
}

}  // namespace

std::optional<std::vector<std::string>> own_names(const std::string& pattern, const std::vector<std::string>& paths) {
  const ForeignName* const name = known(pattern);
  if (name == nullptr) return std::nullopt;
  if (name->ours.front().empty()) return std::vector<std::string>{"*"};
  // If `ours` lists a head and an embedding, or a layer of one kind and a fused one, the first that the model has is
  // used. If one name means several layers ("dense"), all are used.
  const bool all = name->name == "dense" || name->name == "c_proj" || name->ours.front() == "qkv";
  std::vector<std::string> patterns;
  for (const std::string_view ours : name->ours) {
    if (ours.empty() || (!patterns.empty() && !all)) break;
    for (const std::string& path : paths)
      if (last_part(path) == ours)
        if (const std::string found = with_stars(path); std::ranges::find(patterns, found) == patterns.end())
          patterns.push_back(found);
  }
  return patterns;
}

std::string meaning_of_foreign(const std::string& pattern) {
  const ForeignName* const name = known(pattern);
  return name == nullptr ? "" : std::string(name->meaning);
}

}  // namespace plimsoll::model
