// Tests folders of other programs' weights that state one thing in two places: a tied head that is another one, several
// files of weights, adapters, buffers that the model computes.
#include <gmock/gmock.h>
#include <torch/types.h>

#include "files/gguf_file.h"
#include "models/decoder.h"
#include "models/mamba.h"
#include "plimsoll/train_job.h"
#include "train/tiny_job.h"
#include "weights/families.h"
#include "weights/family_files.h"
#include "weights/gguf_source.h"
#include "weights/huggingface_export.h"
#include "weights/mamba_family.h"
#include "weights/model_weights.h"
#include "weights/source.h"
#include "weights/tensor_names.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class WeightsFolder : public ::testing::Test {
 protected:
  /// Returns a job that starts from `weights`, and stops after a step that changes nothing.
  Job still_job(const fs::path& weights, const std::string& type = "decoder", const std::string& more = "") {
    Job job = parse_job("model: {type: " + type + ", weights: " + weights.string() + more +
                            "}\ndata: {type: synthetic, samples: 4, sequence_length: 12, validation_fraction: 0}\n"
                            "batch_size: 2\nmicro_batch_size: 1\nmax_steps: 1\nthreads: 1\nmemory_budget: 1GiB\n"
                            "max_grad_norm: 0\n"
                            "optimizer: {name: sgd, momentum: 0, learning_rate: 1e-30, weight_decay: 0}\n",
                        "job.yaml", "");
    job.checkpoint.directory = folder_ / "run";
    fs::remove_all(job.checkpoint.directory);
    return job;
  }

  /// Trains from the weights, and returns the tensors and the config.json of the export.
  std::pair<std::map<std::string, at::Tensor>, json> trained_and_exported(const Job& job) {
    train(job);
    const fs::path out = folder_ / "out";
    fs::remove_all(out);
    export_huggingface(job.model, job.data.sequence_length, checkpoints_in(job.checkpoint.directory).rbegin()->second,
                       out, {});
    return {tensors_in(out / "model.safetensors"), read_json(out / "config.json")};
  }

  TempFolder folder_;
};

struct TiedFamily {
  std::string name, embedding, type = "decoder";
};

const std::vector<TiedFamily> kTied = {{"llama", "model.embed_tokens.weight"},
                                       {"qwen2", "model.embed_tokens.weight"},
                                       {"gemma2", "model.embed_tokens.weight"},
                                       {"gpt2", "transformer.wte.weight"},
                                       {"mamba2", "backbone.embeddings.weight", "mamba"}};

// A configuration says that the head is the embedding, and the file has another head: transformers uses that one.
TEST_F(WeightsFolder, AHeadThatDiffersFromTheEmbeddingIsUsedAndExported) {
  for (const TiedFamily& family : kTied) {
    SCOPED_TRACE(family.name);
    const fs::path from = single_file_copy(family.name, folder_);
    json config = read_json(from / "config.json");
    config["tie_word_embeddings"] = true;
    put_file(from / "config.json", config.dump());
    auto tensors = tensors_in(from / "model.safetensors");
    tensors["lm_head.weight"] = tensors.at(family.embedding) + 0;
    tensors["lm_head.weight"].view(-1)[-1] += 0.5;
    write_tensors(from / "model.safetensors", tensors);
    const Job job = still_job(from, family.type);
    EXPECT_FALSE(family.type == "mamba" ? job.model.mamba.tie_embeddings : job.model.decoder.tie_embeddings);
    EXPECT_THAT(job.notes, Contains(AllOf(HasSubstr("lm_head.weight differs from the embedding and is used"),
                                          HasSubstr("tie_word_embeddings"))));
    const auto [written, json] = trained_and_exported(job);
    EXPECT_TRUE(at::equal(written.at("lm_head.weight"), tensors["lm_head.weight"]));
    EXPECT_TRUE(at::equal(written.at(family.embedding), tensors[family.embedding]));
    EXPECT_EQ(json.at("tie_word_embeddings"), false);
    // All other keys are the file's.
    config["tie_word_embeddings"] = false;
    EXPECT_EQ(json, config);
  }
}

TEST_F(WeightsFolder, AHeadThatIsTheEmbeddingStaysTied) {
  for (const TiedFamily& family : kTied) {
    SCOPED_TRACE(family.name);
    const fs::path from = single_file_copy(family.name, folder_);
    json config = read_json(from / "config.json");
    config["tie_word_embeddings"] = true;
    put_file(from / "config.json", config.dump());
    auto tensors = tensors_in(from / "model.safetensors");
    tensors["lm_head.weight"] = tensors.at(family.embedding);
    write_tensors(from / "model.safetensors", tensors);
    const Job job = still_job(from, family.type);
    EXPECT_TRUE(family.type == "mamba" ? job.model.mamba.tie_embeddings : job.model.decoder.tie_embeddings);
    EXPECT_THAT(job.notes, Not(Contains(HasSubstr("lm_head"))));
    const auto [written, json] = trained_and_exported(job);
    EXPECT_FALSE(written.contains("lm_head.weight"));
    EXPECT_EQ(json, config);
  }
}

// Sizes or bits that are not the embedding's make another head too, also in shards and without the prefix of names.
TEST_F(WeightsFolder, HeadsAreComparedWithTheEmbedding) {
  const fs::path from = single_file_copy("llama", folder_);
  const weights::Architecture read = weights::read_architecture(from);
  const weights::Layout layout = weights::layout_of(read.family, read.config);
  const auto tensors = tensors_in(from / "model.safetensors");
  const at::Tensor embedding = tensors.at("model.embed_tokens.weight");
  const auto head = [&](const at::Tensor& made, bool prefix = true) {
    auto changed = tensors;
    if (made.defined()) changed["lm_head.weight"] = made;
    if (!prefix) changed["embed_tokens.weight"] = embedding, changed.erase("model.embed_tokens.weight");
    write_tensors(from / "model.safetensors", changed);
    return weights::untied_head(from, layout);
  };
  EXPECT_EQ(head({}), "");
  EXPECT_EQ(head(embedding), "");
  EXPECT_EQ(head(embedding, false), "");
  EXPECT_EQ(head(-embedding), "lm_head.weight");
  EXPECT_EQ(head(-embedding, false), "lm_head.weight");
  EXPECT_EQ(head(embedding.to(at::kBFloat16)), "lm_head.weight");
  EXPECT_EQ(head(torch::zeros({65, 16})), "lm_head.weight");
  EXPECT_EQ(weights::untied_head(folder_ / "nowhere", layout), "");
}

TEST_F(WeightsFolder, OneFileIsReadBeforeShards) {
  const fs::path from = folder_ / "both";
  fs::copy(kFamilies / "llama3", from);
  fs::permissions(from, fs::perms::owner_all);
  const auto old = tensors_in_folder(from);
  auto tensors = old;
  for (auto& [name, tensor] : tensors) tensor = tensor * 0.5;
  write_tensors(from / "model.safetensors", tensors);
  const Job job = still_job(from);
  EXPECT_THAT(job.notes, Contains(AllOf(HasSubstr(from.string()), HasSubstr("are those of model.safetensors"),
                                        HasSubstr("not read: model-00001-of-00005.safetensors"))));
  const auto [written, config] = trained_and_exported(job);
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(written.at(name), tensor)) << name;
  // Without it the shards are the weights, and all files are read.
  fs::remove(from / "model.safetensors");
  EXPECT_THAT(weights::notes_on_unread_weights(from), IsEmpty());
  EXPECT_TRUE(at::equal(trained_and_exported(still_job(from)).first.at("lm_head.weight"), old.at("lm_head.weight")));
  put_file(from / "llama.gguf", "GGUF");
  EXPECT_THAT(
      weights::notes_on_unread_weights(from),
      ::testing::ElementsAre(AllOf(HasSubstr("model.safetensors.index.json"), HasSubstr("not read: llama.gguf"))));
  fs::remove(from / "model.safetensors.index.json");
  EXPECT_THAT(user_error_of([&] { weights::open_source(from); }),
              HasSubstr("name it: llama.gguf, model-00001-of-00005"));
}

TEST_F(WeightsFolder, TheTokenizerIsExportedToo) {
  const fs::path from = single_file_copy("llama", folder_);
  put_file(from / "tokenizer.json", "{\"version\": \"1.0\"}\n");
  put_file(from / "generation_config.json", "{}");
  put_file(from / "notes.txt", "mine");
  trained_and_exported(still_job(from));
  EXPECT_EQ(get_file(folder_ / "out" / "tokenizer.json"), get_file(from / "tokenizer.json"));
  EXPECT_EQ(get_file(folder_ / "out" / "generation_config.json"), "{}");
  EXPECT_FALSE(fs::exists(folder_ / "out" / "notes.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "expected.json"));
}

// The tokenizer of the weights would encode texts into other tokens than those that the model was trained on.
TEST_F(WeightsFolder, TheTokenizerOfTheTrainingIsExported) {
  const fs::path from = single_file_copy("llama", folder_);
  put_file(from / "tokenizer.json", "{\"version\": \"1.0\"}\n");
  put_file(from / "special_tokens_map.json", "{}");
  put_file(from / "generation_config.json", "{}");
  fs::create_directories(folder_ / "other");
  put_file(folder_ / "other" / "tokenizer.json", "{\"version\": \"2.0\"}\n");
  put_file(folder_ / "other" / "mine.json", "{\"version\": \"3.0\"}\n");
  Job job = still_job(from);
  trained_and_exported(job);
  const auto exported_with = [&](const std::optional<fs::path>& tokenizer) {
    fs::remove_all(folder_ / "out");
    const ExportReport report = export_huggingface(job.model, job.data.sequence_length,
                                                   checkpoints_in(job.checkpoint.directory).rbegin()->second,
                                                   folder_ / "out", {}, kShardBytes, tokenizer);
    EXPECT_TRUE(fs::exists(folder_ / "out" / "generation_config.json"));
    return report.notes;
  };
  EXPECT_THAT(exported_with(from / "tokenizer.json"), ::testing::IsEmpty());
  EXPECT_TRUE(fs::exists(folder_ / "out" / "special_tokens_map.json"));
  EXPECT_THAT(exported_with(folder_ / "other" / "tokenizer.json"),
              ::testing::ElementsAre(HasSubstr("llama/tokenizer.json is not copied: the training had another")));
  EXPECT_EQ(get_file(folder_ / "out" / "tokenizer.json"), "{\"version\": \"2.0\"}\n");
  EXPECT_FALSE(fs::exists(folder_ / "out" / "special_tokens_map.json"));
  exported_with(folder_ / "other" / "mine.json");
  EXPECT_EQ(get_file(folder_ / "out" / "tokenizer.json"), "{\"version\": \"3.0\"}\n");
  EXPECT_THAT(exported_with(fs::path()), ::testing::ElementsAre(HasSubstr("which no file is copied of")));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "tokenizer.json"));
  // A file of weights in its folder.
  job.model.config = from / "config.json";
  job.model.weights = from / "model.safetensors";
  exported_with(std::nullopt);
  EXPECT_EQ(get_file(folder_ / "out" / "tokenizer.json"), "{\"version\": \"1.0\"}\n");
}

TEST_F(WeightsFolder, AnAdapterIsRefused) {
  const fs::path from = single_file_copy("llama", folder_);
  put_file(from / "adapter_config.json", R"({"peft_type": "LORA"})");
  const Job job = still_job(from);
  EXPECT_THAT(user_error_of([&] { train(job); }), AllOf(HasSubstr("adapter_config.json"), HasSubstr("merge")));
}

// Buffers that older versions of transformers saved and that the model computes.
TEST_F(WeightsFolder, BuffersMustBeWhatTheModelComputes) {
  const auto loaded = [&](const std::string& family, const std::string& name, const at::Tensor& buffer) {
    const fs::path from = single_file_copy(family, folder_);
    auto tensors = tensors_in(from / "model.safetensors");
    tensors[name] = buffer;
    write_tensors(from / "model.safetensors", tensors);
    const weights::Architecture read = weights::read_architecture(from);
    model::DecoderImpl model(read.config, 12);
    load_decoder_weights(from, {}, parameters_of(model));
  };
  const auto message = [&](const std::string& family, const std::string& name, const at::Tensor& buffer) {
    return user_error_of([&] { loaded(family, name, buffer); });
  };
  const std::string inverse = "model.layers.1.self_attn.rotary_emb.inv_freq", mask = "transformer.h.1.attn.bias";
  const at::Tensor frequencies = torch::tensor({1.0, 0.01});  // of heads of width 4
  EXPECT_NO_THROW(loaded("llama", inverse, frequencies));
  EXPECT_NO_THROW(loaded("llama", inverse, frequencies.to(at::kBFloat16)));
  EXPECT_THAT(message("llama", inverse, frequencies / 4), HasSubstr(inverse + "' [2] is not what the model computes"));
  EXPECT_THAT(message("llama", inverse, torch::ones({3})), HasSubstr("is not what the model computes"));
  EXPECT_NO_THROW(loaded("gpt2", mask, torch::ones({20, 20}).tril().view({1, 1, 20, 20}).to(at::kByte)));
  EXPECT_NO_THROW(loaded("gpt2", mask, torch::ones({20, 20}).tril().view({1, 1, 20, 20}).to(at::kBool)));
  EXPECT_THAT(message("gpt2", mask, torch::ones({1, 1, 20, 20})), HasSubstr("is not what the model computes"));
  EXPECT_THAT(message("gpt2", mask, torch::ones({1, 1, 20, 10})), HasSubstr("is not what the model computes"));
}

TEST_F(WeightsFolder, AConfigurationThatDiffersFromTheFoldersIsNoted) {
  const fs::path from = single_file_copy("llama", folder_);
  json config = read_json(from / "config.json");
  config["rms_norm_eps"] = 0.25;
  config.erase("rope_parameters");
  config["rope_theta"] = 500.0;
  put_file(folder_ / "other.json", config.dump());
  const Job job = still_job(from, "decoder", ", config: " + (folder_ / "other.json").string());
  EXPECT_EQ(job.model.decoder.rope_theta, 500);
  EXPECT_THAT(job.notes, Contains(AllOf(HasSubstr("model.config is used"), HasSubstr("norm_eps: 2e-05, not 0.25"),
                                        HasSubstr("rope_theta"))));
  EXPECT_THAT(still_job(from, "decoder", ", config: " + from.string()).notes, IsEmpty());
}

/// Returns a GGUF file of one layer of the architecture llama, without any setting that may be left out.
GgufText small_gguf() {
  GgufText text;
  text.word("general.architecture", "llama");
  text.whole("llama.embedding_length", 8).whole("llama.block_count", 1).whole("llama.feed_forward_length", 8);
  text.whole("llama.attention.head_count", 2);
  text.tensor("token_embd.weight", {32, 8}, 0, std::string(32 * 8 * 4, '\0'));
  return text;
}

TEST_F(WeightsFolder, MetadataOfGgufFilesAreAppliedOrRefused) {
  const auto read = [&](const std::function<void(GgufText&)>& add) {
    GgufText text = small_gguf();
    add(text);
    return weights::read_gguf_architecture(put_file(folder_ / "model.gguf", text.text()));
  };
  const auto message = [&](const std::function<void(GgufText&)>& add) { return user_error_of([&] { read(add); }); };
  const auto flag = [](bool value) { return std::string(1, static_cast<char>(value)); };
  EXPECT_THAT(message([](GgufText& t) { t.number("llama.rope.scale_linear", 4); }),
              AllOf(HasSubstr("model.gguf"), HasSubstr("llama.rope.scale_linear is 4; it is not computed here")));
  EXPECT_THAT(message([](GgufText& t) { t.number("llama.rope.scaling.factor", 4); }),
              HasSubstr("llama.rope.scaling.factor is 4"));
  EXPECT_THAT(message([](GgufText& t) { t.word("llama.rope.scaling.type", "linear"); }),
              HasSubstr("llama.rope.scaling.type is linear"));
  EXPECT_THAT(message([](GgufText& t) { t.number("llama.rope.scaling.attn_factor", 0.5); }),
              HasSubstr("attn_factor is 0.5"));
  EXPECT_THAT(message([](GgufText& t) { t.whole("llama.attention.sliding_window", 8); }),
              HasSubstr("sliding_window is 8"));
  EXPECT_THAT(message([&](GgufText& t) { t.entry("llama.attention.causal", 7, flag(false)); }),
              HasSubstr("causal is false"));
  EXPECT_THAT(message([](GgufText& t) { t.whole("llama.expert_count", 8); }), HasSubstr("llama.expert_count is 8"));
  EXPECT_THAT(message([](GgufText& t) { t.whole("split.count", 2); }), HasSubstr("split.count is 2"));
  EXPECT_THAT(message([](GgufText& t) { t.word("general.type", "adapter"); }), HasSubstr("general.type is adapter"));
  EXPECT_THAT(message([](GgufText& t) { t.whole("llama.vocab_size", 31); }), HasSubstr("llama.vocab_size is 31"));
  EXPECT_THAT(message([](GgufText& t) { t.whole("llama.attention.value_length", 2); }), HasSubstr("value_length is 2"));
  for (const char* key : {"llama.logit_scale", "llama.attention.scale", "llama.attn_logit_softcapping", "llama.other"})
    EXPECT_THAT(message([&](GgufText& t) { t.number(key, 0.25f); }),
                HasSubstr(std::string(key) + " is 0.25; this setting is not known here"));
  EXPECT_THAT(message([](GgufText& t) {
                t.words("llama.names", {"a", "b"});
              }),
              HasSubstr("llama.names is a list of 2"));
  // Values that change nothing, and what cannot change the model.
  const weights::Architecture found = read([&](GgufText& t) {
    t.number("llama.rope.scale_linear", 1)
        .number("llama.rope.scaling.factor", 1)
        .word("llama.rope.scaling.type", "none");
    t.entry("llama.attention.causal", 7, flag(true)).whole("llama.expert_count", 0).whole("llama.vocab_size", 32);
    t.whole("llama.context_length", 512).word("general.name", "a model").whole("general.quantization_version", 2);
    t.word("tokenizer.ggml.model", "gpt2").word("quantize.imatrix.file", "x").whole("split.count", 1);
  });
  EXPECT_EQ(found.config.rope_scaling.factor, 1);
  EXPECT_THAT(found.notes, IsEmpty());
  EXPECT_THAT(read([](GgufText& t) { t.word("maker.version", "3"); }).notes,
              Contains(AllOf(HasSubstr("not used"), HasSubstr("maker.version"))));
}

}  // namespace
}  // namespace plimsoll
