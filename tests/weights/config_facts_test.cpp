// Tests the table of the keys of config.json against the fields of transformers' configuration classes
// (tests/weights/transformers_fields.json, made by scripts/make-config-fields.py), and against the readers.
#include "weights/config_facts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "test_files.h"
#include "weights/config_reader.h"
#include "weights/families.h"
#include "weights/family_files.h"
#include "weights/mamba_family.h"
#include "weights/vision_families.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using weights::config_fact;

const std::vector<std::string> kDecoders = {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gpt2"};
const std::vector<std::string> kEncoders = {"vit", "clip_vision_model", "siglip_vision_model"};

const json& fields_of(const std::string& family) {
  static const json all =
      read_json(fs::path(PLIMSOLL_SOURCE_DIR) / "tests" / "weights" / "transformers_fields.json").at("families");
  return all.at(family).at("fields");
}

/// Returns a config.json of a small model of the family, with as few keys as it may have.
json small(const std::string& family) {
  json config = {{"model_type", family}};
  if (family == "gpt2" || family == "mamba2" || std::ranges::find(kEncoders, family) != kEncoders.end()) return config;
  config.update({{"vocab_size", 64},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 32}});
  return config;
}

/// Returns the fields that have this treatment in the family.
std::set<std::string> fields_with(const std::string& family, std::string_view treatment) {
  std::set<std::string> fields;
  for (const FileFact& fact : weights::config::kFacts)
    for_each_field_of(fact, [&](std::string_view field) {
      const FileFact* own = config_fact(family, field);
      if (own != nullptr && own->treatment == treatment) fields.emplace(field);
    });
  return fields;
}

/// Returns what the file says: the settings of the model, one a line, and the notes.
struct Said {
  std::vector<std::string> settings, notes;
};

class ConfigFacts : public ::testing::Test {
 protected:
  Said read(const std::string& family, const json& config) {
    put_file(folder_ / "config.json", config.dump());
    Said message;
    const auto add = [&](const char* name, const auto& value) {
      message.settings.push_back(fmt::format("{} {}", name, value));
    };
    if (family == "mamba2") {
      const MambaConfig found = weights::read_mamba_config(folder_.path(), &message.notes);
      weights::for_each_mamba_field([&](const char* name, auto place) { add(name, place(found)); });
    } else if (std::ranges::find(kDecoders, family) != kDecoders.end()) {
      const weights::Architecture found = weights::read_architecture(folder_.path());
      weights::for_each_field([&](const char* name, auto place) { add(name, place(found.config)); });
      message.notes = found.notes;
    } else {
      const weights::VisionArchitecture found = weights::read_vision_architecture(folder_.path());
      weights::for_each_vision_field([&](const char* name, auto place) { add(name, place(found.config)); });
      add("depth", found.config.depth);
      add("image_size", found.image_size);
      message.notes = found.notes;
    }
    return message;
  }
  std::string refusal(const std::string& family, const json& config) {
    return user_error_of([&] { read(family, config); });
  }

  TempFolder folder_;
};

TEST(ConfigFactsTable, EveryFieldOfTransformersHasARow) {
  std::set<std::string> families(kDecoders.begin(), kDecoders.end());
  families.insert(kEncoders.begin(), kEncoders.end());
  for (const char* other : {"mamba2", "clip", "siglip"}) families.insert(other);
  for (const std::string& family : families)
    for (const auto& [field, defaults] : fields_of(family).items())
      EXPECT_NE(config_fact(family, field), nullptr)
          << family << ": transformers has the new field " << field << "; add a row to src/weights/config_facts.cpp";
}

TEST(ConfigFactsTable, RowsAreForTheirFamilies) {
  EXPECT_EQ(config_fact("qwen2", "attention_bias"), nullptr);  // Qwen 2 has biases, and transformers reads no such key
  EXPECT_EQ(config_fact("clip", "image_size"), nullptr);
  EXPECT_NE(config_fact("clip_vision_model", "image_size"), nullptr);
}

// A key that is left out has transformers' default.
TEST_F(ConfigFacts, DefaultsAreThoseOfTransformers) {
  std::vector<std::string> families = kDecoders;
  families.insert(families.end(), kEncoders.begin(), kEncoders.end());
  families.emplace_back("mamba2");
  for (const std::string& family : families) {
    SCOPED_TRACE(family);
    json written = fields_of(family);
    written.update(small(family));
    if (written.contains("num_key_value_heads") && family == "qwen2") written["num_key_value_heads"] = 32;
    EXPECT_EQ(read(family, written).settings, read(family, small(family)).settings);
  }
}

TEST_F(ConfigFacts, IgnoredKeysChangeNothing) {
  std::vector<std::string> families = kDecoders;
  families.insert(families.end(), kEncoders.begin(), kEncoders.end());
  families.emplace_back("mamba2");
  for (const std::string& family : families) {
    const std::vector<std::string> plain = read(family, small(family)).settings;
    for (const std::string& field : fields_with(family, weights::config::kIgnored)) {
      json config = small(family);
      config[field] = {{"odd", 3}};
      const Said message = read(family, config);
      EXPECT_EQ(message.settings, plain) << family << " " << field;
      EXPECT_THAT(message.notes, IsEmpty()) << family << " " << field;
    }
  }
}

TEST_F(ConfigFacts, RefusedKeysAreNamed) {
  for (const std::string& family : kDecoders) {
    const std::set<std::string> refused = fields_with(family, weights::config::kRefused);
    for (const std::string& field : refused) {
      json config = small(family);
      config[field] = {{"odd", 3}};
      EXPECT_THAT(refusal(family, config), HasSubstr(field + " is {\"odd\":3}; ")) << family;
      config[field] = nullptr;
      EXPECT_NO_THROW(read(family, config)) << family << " " << field;
    }
    EXPECT_GE(refused.size(), 8) << family;
  }
  // What a refused key may say.
  for (const auto& [family, key, value] :
       std::vector<std::tuple<std::string, std::string, json>>{{"llama", "rope_interleaved", false},
                                                               {"llama", "is_encoder_decoder", false},
                                                               {"llama", "partial_rotary_factor", 1.0},
                                                               {"llama", "pruned_heads", json::object()},
                                                               {"gpt2", "scale_attn_weights", true},
                                                               {"gpt2", "scale_attn_by_inverse_layer_idx", false},
                                                               {"mamba2", "rms_norm", true},
                                                               {"gemma2", "use_bidirectional_attention", false},
                                                               {"vit", "qkv_bias", true},
                                                               {"vit", "num_channels", 3}}) {
    json config = small(family);
    config[key] = value;
    EXPECT_NO_THROW(read(family, config)) << key;
  }
  json config = small("gpt2");
  config["scale_attn_weights"] = false;
  EXPECT_THAT(refusal("gpt2", config), HasSubstr("scale_attn_weights is false"));
}

// Keys that no family has: those of a section that changes the model are refused, others are named in a note.
TEST_F(ConfigFacts, ArchitecturesOfAnotherFamilyAreNamed) {
  const auto notes = [&](const std::string& family, const json& architectures) {
    json config = small(family);
    config["architectures"] = architectures;
    return read(family, config).notes;
  };
  EXPECT_THAT(notes("llama", {"LlamaForSequenceClassification"}), IsEmpty());
  EXPECT_THAT(notes("gpt2", {"GPT2LMHeadModel"}), IsEmpty());
  EXPECT_THAT(notes("gpt2", {"GPT2Model"}), IsEmpty());
  EXPECT_THAT(notes("llama", json::array()), IsEmpty());
  EXPECT_THAT(notes("llama", {"MistralForCausalLM"}),
              ElementsAre(HasSubstr(
                  "architectures is 'MistralForCausalLM', and model_type is 'llama'; the model_type counts")));
}

TEST_F(ConfigFacts, UnknownKeysAreRefusedOrNamed) {
  for (const std::string& family : {"llama", "gpt2", "mamba2", "vit"}) {
    for (const char* key :
         {"attention_multiplier", "logit_scale", "rope_interpolation", "use_qk_norm", "qkvQuantConfig",
          "num_experts_per_tok", "layernorm_bias", "alibi_slopes", "mlp_ratio", "n_shared_heads"}) {
      json config = small(family);
      config[key] = 2;
      EXPECT_THAT(refusal(family, config), AllOf(HasSubstr("config.json"), HasSubstr(std::string(key) + " is 2; ")))
          << family;
      config[key] = false;
      EXPECT_THAT(read(family, config).notes, IsEmpty()) << key;
    }
    json config = small(family);
    config["made_by"] = "a person";
    config["written_on"] = "2026-11-27";
    const Said message = read(family, config);
    EXPECT_EQ(message.settings, read(family, small(family)).settings);
    ASSERT_EQ(message.notes.size(), 1u) << family;
    EXPECT_THAT(message.notes[0],
                HasSubstr("config.json: these keys are not known here and are not used: made_by, written_on"));
  }
  // A key of another family.
  json config = small("llama");
  config["sliding_window"] = 4;
  EXPECT_THAT(refusal("llama", config), HasSubstr("sliding_window is 4; llama has no such setting here"));
}

TEST_F(ConfigFacts, RotaryPositionsAreReadAsTransformersDoes) {
  const auto settings = [&](const json& more, const std::string& family = "llama") {
    json config = small(family);
    config.update(more);
    put_file(folder_ / "config.json", config.dump());
    return weights::read_architecture(folder_.path()).config;
  };
  const json llama3 = {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
  EXPECT_EQ(settings({{"rope_theta", 5e5}}).rope_theta, 5e5);
  EXPECT_EQ(settings({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}}}).rope_theta, 5e5);
  // transformers takes rope_theta from beside rope_parameters if it is not inside.
  EXPECT_EQ(settings({{"rope_parameters", {{"rope_type", "default"}}}, {"rope_theta", 5e5}}).rope_theta, 5e5);
  EXPECT_EQ(settings({{"rope_parameters", {{"rope_theta", 5e5}}}, {"rope_theta", 500000}}).rope_theta, 5e5);
  EXPECT_EQ(settings({{"rope_scaling", llama3}, {"rope_theta", 5e5}}).rope_theta, 5e5);
  EXPECT_EQ(settings({{"rope_scaling", nullptr}, {"rope_parameters", {{"rope_theta", 5e5}}}}).rope_theta, 5e5);
  EXPECT_EQ(settings({{"rope_scaling", json::object()}, {"rope_parameters", {{"rope_theta", 5e5}}}}).rope_theta, 5e5);
  // The length of the first training: inside, beside, or max_position_embeddings, which has a default of its own.
  json with_length = llama3;
  with_length["original_max_position_embeddings"] = 16;
  EXPECT_EQ(settings({{"rope_scaling", with_length}, {"max_position_embeddings", 64}}).rope_scaling.original_length,
            16);
  EXPECT_EQ(settings({{"rope_scaling", llama3}, {"original_max_position_embeddings", 32}}).rope_scaling.original_length,
            32);
  EXPECT_EQ(settings({{"rope_scaling", llama3}, {"max_position_embeddings", 64}}).rope_scaling.original_length, 64);
  for (const auto& [family, length] : std::map<std::string, int64_t>{
           {"llama", 2048}, {"mistral", 131072}, {"gemma2", 8192}, {"qwen2", 32768}, {"qwen3", 32768}}) {
    EXPECT_EQ(settings({{"rope_scaling", llama3}}, family).rope_scaling.original_length, length) << family;
    EXPECT_EQ(fields_of(family).at("max_position_embeddings"), length) << family;
  }
  const auto message = [&](const json& more) { return user_error_of([&] { settings(more); }); };
  for (const char* kind : {"linear", "dynamic", "yarn", "longrope", "su"})
    for (const char* key : {"rope_scaling", "rope_parameters"})
      for (const char* type : {"type", "rope_type"})
        EXPECT_THAT(message({{key, {{type, kind}, {"factor", 4.0}}}}),
                    AllOf(HasSubstr(std::string(key) + "." + type + " is \"" + kind), HasSubstr("default, llama3")));
  EXPECT_THAT(message({{"rope_parameters", {{"rope_theta", 5e5}}}, {"rope_theta", 1e4}}),
              AllOf(HasSubstr("rope_parameters.rope_theta is 500000.0"), HasSubstr("rope_theta is 10000.0")));
  EXPECT_THAT(
      message({{"rope_parameters", {{"rope_type", "default"}}}, {"rope_scaling", llama3}}),
      AllOf(HasSubstr("rope_parameters.rope_type is \"default\""), HasSubstr("rope_scaling.rope_type is \"llama3\"")));
  EXPECT_THAT(
      message({{"rope_parameters", {{"rope_theta", 5e5}}}, {"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}}),
      HasSubstr("rope_scaling.type is \"yarn\"; known are default, llama3"));
  EXPECT_THAT(message({{"rope_scaling", {{"rope_type", "llama3"}, {"type", "default"}}}}),
              HasSubstr("rope_type is \"llama3\""));
  EXPECT_THAT(message({{"rope_scaling", {{"rope_type", "llama3"}, {"low_freq_factor", 1}, {"high_freq_factor", 4}}}}),
              HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(message({{"rope_parameters", {{"rope_type", "default"}, {"attention_factor", 2.0}}}}),
              HasSubstr("rope_parameters.attention_factor is 2.0"));
  EXPECT_THAT(message({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}),
              HasSubstr("rope_parameters.full_attention"));
  EXPECT_THAT(message({{"rope_scaling", with_length}, {"original_max_position_embeddings", 32}}),
              AllOf(HasSubstr("rope_scaling.original_max_position_embeddings is 16"), HasSubstr("is 32")));
  EXPECT_THAT(message({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}),
              HasSubstr("partial_rotary_factor is 0.5"));
}

TEST_F(ConfigFacts, TwoNamesOfOneSettingMustAgree) {
  json config = small("gpt2");
  config.update(
      {{"hidden_size", 32}, {"num_hidden_layers", 3}, {"num_attention_heads", 2}, {"max_position_embeddings", 40}});
  put_file(folder_ / "config.json", config.dump());
  const DecoderConfig found = weights::read_architecture(folder_.path()).config;
  EXPECT_EQ(found.hidden_size, 32);
  EXPECT_EQ(found.num_layers, 3);
  EXPECT_EQ(found.num_heads, 2);
  EXPECT_EQ(found.max_positions, 40);
  config["n_embd"] = 64;
  EXPECT_THAT(refusal("gpt2", config), AllOf(HasSubstr("n_embd is 64"), HasSubstr("hidden_size"), HasSubstr("is 32")));
  config = small("gemma2");
  config.update({{"sliding_window", 8}, {"sliding_window_size", 8}});
  EXPECT_NO_THROW(read("gemma2", config));
  config["sliding_window_size"] = 9;
  EXPECT_THAT(refusal("gemma2", config), AllOf(HasSubstr("sliding_window is 8"), HasSubstr("is 9")));
  config = small("mamba2");
  config["intermediate_size"] = 8192;
  EXPECT_NO_THROW(read("mamba2", config));
  config["intermediate_size"] = 4096;
  EXPECT_THAT(refusal("mamba2", config), HasSubstr("intermediate_size is 4096"));
  // Layers of a kind that the family does not compute.
  config = small("llama");
  config["layer_types"] = std::vector<std::string>(4, "full_attention");
  EXPECT_NO_THROW(read("llama", config));
  config["layer_types"][2] = "sliding_attention";
  EXPECT_THAT(refusal("llama", config), HasSubstr("layer_types"));
  config = small("qwen2");
  config["layer_types"] = std::vector<std::string>(4, "sliding_attention");
  config["use_sliding_window"] = false;
  EXPECT_THAT(refusal("qwen2", config), HasSubstr("layer_types"));
  config["use_sliding_window"] = true;
  EXPECT_NO_THROW(read("qwen2", config));
}

TEST_F(ConfigFacts, BothSectionsOfAnEncoderMustAgree) {
  const json encoder = {{"hidden_size", 32}, {"num_attention_heads", 2}, {"patch_size", 8}, {"image_size", 16}};
  json config = {{"model_type", "clip"}, {"vision_config", encoder}, {"vision_config_dict", encoder}};
  EXPECT_NO_THROW(read("clip", config));
  config["vision_config_dict"]["patch_size"] = 4;
  EXPECT_THAT(refusal("clip", config), HasSubstr("vision_config_dict"));
  config["vision_config_dict"] = nullptr;
  config["vision_config"]["rope_theta"] = 100.0;
  EXPECT_THAT(refusal("clip", config), HasSubstr("vision_config.rope_theta is 100.0"));
}

}  // namespace
}  // namespace plimsoll
