#include "weights/huggingface_export.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "ops/libtorch_types.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors.h"
#include "weights/checkpoint_weights.h"
#include "weights/config_reader.h"
#include "weights/families.h"
#include "weights/mamba_family.h"
#include "weights/model_weights.h"
#include "weights/source.h"
#include "weights/tensor_names.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

/// A tensor to write: some rows of a parameter of ours.
struct Part {
  const weights::Parameter* parameter;
  const weights::Piece* piece;
  int64_t row;
  int64_t bytes;
};

/// Creates the folder, which must be empty. Returns true if it did not exist before.
bool make_empty_folder(const std::filesystem::path& folder) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder, error);
  if (error) throw_file_error("make the folder", folder, error.value());
  // transformers would load shards of another model in the folder as part of ours.
  if (!std::filesystem::is_empty(folder, error))
    throw UserError(fmt::format("the folder {} is not empty; name another", folder.string()));
  return made;
}

void write_json(const std::filesystem::path& path, const Json& json) {
  write_file_atomically(path, json.dump(2) + "\n");
}

/// Returns the config.json that the job read its architecture from, or nullopt.
std::optional<std::filesystem::path> config_of(const ModelConfig& model) {
  std::error_code error;
  for (std::filesystem::path path : {model.config, model.weights}) {
    if (path.empty()) continue;
    if (std::filesystem::is_directory(path, error)) path /= "config.json";
    if (path.extension() == ".json" && std::filesystem::exists(path, error)) return path;
  }
  return std::nullopt;
}

/// Files of a model's folder that say how its texts are encoded.
constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json", "tokenizer.model",   "tokenizer_config.json",   "vocab.json",         "merges.txt",
    "vocab.txt",      "added_tokens.json", "special_tokens_map.json", "chat_template.jinja"};
constexpr const char* kGenerationFile = "generation_config.json";

/// Returns the folder of another program's weights, or an empty path.
std::filesystem::path folder_of(const ModelConfig& model) {
  std::error_code error;
  if (std::filesystem::is_directory(model.weights, error)) return model.weights;
  // Another program's file is in the folder of its model (job/inferred.h).
  return model.config.empty() ? std::filesystem::path() : model.weights.parent_path();
}

// Returns the type that the checkpoint holds its weights in. They are read as float32 for any written type: a norm's 1
// + w in 16 bits has lost bits before 1 is subtracted.
DType held_type(const std::filesystem::path& checkpoint, const ExportOptions& options) {
  const CheckpointWeights weights(checkpoint, options);
  for (const auto& [name, make] : weights.all())
    if (name == "embedding") return dtype_of(make().scalar_type());
  return DType::float32;
}

class FolderExport {
 public:
  FolderExport(const ModelConfig& model, int64_t sequence_length, const std::filesystem::path& checkpoint,
               const std::filesystem::path& out, const ExportOptions& options,
               std::optional<std::filesystem::path> tokenizer, const Budget& budget)
      : out_(out),
        weights_(folder_of(model)),
        tokenizer_(std::move(tokenizer)),
        from_(checkpoint, {.merge = options.merge, .dtype = DType::float32}) {
    const weights::ModelFormat format = weights::model_format(model.type);
    if (!format.to_huggingface)
      throw UserError(fmt::format("model.type is {}; allowed with --format huggingface: {}", model.type,
                                  weights::huggingface_types()));
    if (from_.adapters() > 0 && !options.merge)
      throw UserError("the checkpoint has LoRA adapters, which a folder for transformers cannot hold; add --merge");
    for (const auto& [name, make] : from_.all()) made_[name] = &make;
    const int64_t vocab_size = tensor("embedding").size(0);
    dtype_ = options.dtype ? *options.dtype : held_type(checkpoint, options);
    weights::HuggingFaceModel made = format.to_huggingface(
        {model, vocab_size, sequence_length, dtype_, config_of(model), [&](const std::string& name) {
           return made_.contains(name) ? std::optional(tensor(name).size(0)) : std::nullopt;
         }});
    parameters_ = std::move(made.parameters);
    json_ = std::move(made.config);
    check_surplus();
    std::set<std::string_view> copied;  // transposed, or less 1 in float64
    for (const weights::Parameter& parameter : parameters_)
      if (parameter.less_one || std::ranges::any_of(parameter.pieces, &weights::Piece::transposed))
        copied.insert(parameter.name);
    from_.require_room(budget, [&](const std::string& name, int64_t numbers) {
      const int64_t cast = dtype_ == DType::float32 ? 0 : numbers * element_bytes(dtype_);
      return copied.contains(name) ? cast + numbers * element_bytes(DType::float32) : cast;
    });
  }

  int64_t merged() const { return from_.adapters(); }

  ExportReport write(int64_t shard_bytes) {
    std::vector<std::vector<Part>> shards = {{}};
    ExportReport report;
    int64_t in_shard = 0;
    for (const weights::Parameter& parameter : parameters_) {
      int64_t row = 0;
      for (const weights::Piece& piece : parameter.pieces) {
        const int64_t bytes = *safetensors_bytes(dtype_, piece.sizes);
        if (in_shard > 0 && in_shard + bytes > shard_bytes) {
          shards.emplace_back();
          in_shard = 0;
        }
        shards.back().push_back({&parameter, &piece, row, bytes});
        row += piece.rows();
        in_shard += bytes;
        report.bytes += bytes;
        ++report.tensors;
      }
    }
    const bool made = make_empty_folder(out_);
    try {
      write(shards, report.bytes);
    } catch (...) {
      // Shards without the other files are no model.
      std::error_code ignored;
      for (const std::filesystem::path& file : written_) std::filesystem::remove(file, ignored);
      if (made) std::filesystem::remove(out_, ignored);
      throw;
    }
    report.notes = notes_;
    return report;
  }

 private:
  void write(const std::vector<std::vector<Part>>& shards, int64_t bytes) {
    Json places = Json::object();
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shards.size() == 1
                                   ? "model.safetensors"
                                   : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
      written_.push_back(out_ / name);
      write_shard(name, shards[i]);
      for (const Part& part : shards[i]) places[part.piece->name] = name;
    }
    if (shards.size() > 1) {
      written_.push_back(out_ / "model.safetensors.index.json");
      write_json(written_.back(), {{"metadata", {{"total_size", bytes}}}, {"weight_map", places}});
    }
    copy_text_files();
    written_.push_back(out_ / "config.json");
    write_json(written_.back(), json_);
  }

  /// Copies the tokenizer that the training had, and the settings of generation of the folder that it started from.
  void copy_text_files() {
    std::error_code error;
    if (!weights_.empty()) copy(weights_ / kGenerationFile, kGenerationFile);
    const bool of_weights = !tokenizer_ || (!tokenizer_->empty() && !weights_.empty() &&
                                            std::filesystem::equivalent(tokenizer_->parent_path(), weights_, error));
    if (!of_weights) note_other_tokenizer();
    std::filesystem::path folder = weights_;
    if (!of_weights) folder = tokenizer_->parent_path();
    const bool has_folder =
        of_weights || tokenizer_->filename() == "tokenizer.json" || tokenizer_->filename() == "tokenizer.model";
    if (!folder.empty() && has_folder)
      for (const char* name : kTokenizerFiles) copy(folder / name, name);
    else if (!of_weights &&
             !tokenizer_->empty())  // files next to a file of another name may belong to another tokenizer
      copy(*tokenizer_, tokenizer_->extension() == ".json" ? "tokenizer.json" : "tokenizer.model");
  }

  void note_other_tokenizer() {
    std::error_code error;
    if (weights_.empty()) return;
    for (const char* name : {"tokenizer.json", "tokenizer.model"})
      if (std::filesystem::exists(weights_ / name, error)) {
        notes_.push_back(fmt::format("{} is not copied: the training had another tokenizer{}",
                                     (weights_ / name).string(),
                                     tokenizer_->empty() ? ", which no file is copied of" : ""));
        return;
      }
  }

  void copy(const std::filesystem::path& from, const char* name) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(from, error)) return;
    written_.push_back(out_ / name);
    const MappedFile file = MappedFile::open(from);
    AtomicFile written(written_.back());
    MappedFile::for_each_piece({file.data(), static_cast<size_t>(file.size())},
                               [&](std::span<const std::byte> piece) { written.write(piece); });
    file.require_whole();
    written.commit();
  }

  /// Throws UserError if the checkpoint has tensors that the folder would not have.
  void check_surplus() const {
    std::set<std::string_view> known;
    for (const weights::Parameter& parameter : parameters_) known.insert(parameter.name);
    for (const auto& [name, make] : made_)
      if (!known.contains(name))
        throw UserError(fmt::format("the checkpoint has {}, which the job's model does not; it is of another model",
                                    in_quotes(name)));
  }

  at::Tensor tensor(const std::string& name) const {
    const auto found = made_.find(name);
    if (found == made_.end())
      throw UserError(fmt::format("the checkpoint has no {}; it is of another model than the job's", in_quotes(name)));
    return (*found->second)();
  }

  void write_shard(const std::string& name, const std::vector<Part>& parts) {
    std::vector<TensorDeclaration> declarations;
    for (const Part& part : parts) declarations.push_back({part.piece->name, dtype_, part.piece->sizes, {}});
    SafetensorsWriter writer(out_ / name, declarations, {{"format", "pt"}});
    at::Tensor whole;  // the parts of one parameter are consecutive
    const weights::Parameter* of = nullptr;
    for (const Part& part : parts) {
      if (part.parameter != of) {
        whole.reset();  // frees it before the next is created
        whole = tensor(part.parameter->name);
        of = part.parameter;
      }
      check_size(part, whole);
      at::Tensor piece = whole.narrow(0, part.row, part.piece->rows());
      if (!part.piece->here.empty()) piece = piece.reshape(part.piece->sizes);
      if (part.piece->transposed) piece = piece.t();
      if (part.parameter->less_one) piece = piece.to(at::kDouble) - 1;
      writer.write(part.piece->name, bytes_of(piece.to(scalar_type_of(dtype_)).contiguous()));
    }
    writer.commit();
  }

  static void check_size(const Part& part, const at::Tensor& whole) {
    int64_t rows = 0;
    for (const weights::Piece& piece : part.parameter->pieces) rows += piece.rows();
    const std::vector<int64_t>& sizes = part.piece->ours();
    const bool matrix = sizes.size() == 2;
    const int64_t columns = matrix ? sizes[part.piece->transposed ? 0 : 1] : 1;
    if (whole.dim() != (matrix ? 2 : 1) || whole.size(0) != rows || (matrix && whole.size(1) != columns))
      throw UserError(
          fmt::format("the checkpoint's '{}' is not of the size that the job's model has; it is of another "
                      "model",
                      part.parameter->name));
  }

  std::filesystem::path out_, weights_;  // weights_: the folder of another program's weights, or empty
  std::optional<std::filesystem::path> tokenizer_;
  std::vector<std::string> notes_;
  CheckpointWeights from_;
  std::map<std::string, const std::function<at::Tensor()>*> made_;
  DType dtype_ = DType::float32;
  std::vector<weights::Parameter> parameters_;
  Json json_;
  std::vector<std::filesystem::path> written_;
};

}  // namespace

ExportReport export_huggingface(const ModelConfig& model, int64_t sequence_length,
                                const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                                const ExportOptions& options, int64_t shard_bytes,
                                const std::optional<std::filesystem::path>& tokenizer, const Budget& budget) {
  const at::NoGradGuard no_grad;
  const CheckpointInfo info = describe_checkpoint(checkpoint);
  FolderExport writing(model, sequence_length, checkpoint, out, options, tokenizer, budget);
  ExportReport report = writing.write(shard_bytes);
  report.step = info.step;
  report.merged = options.merge ? writing.merged() : 0;
  return report;
}

}  // namespace plimsoll

namespace plimsoll::weights {
namespace {

using Json = nlohmann::json;

/// Returns the config.json that the job read, for weights of another type.
Json with_dtype(Json json, DType dtype) {
  const bool has_new_name = json.contains("dtype");
  if (has_new_name) json["dtype"] = name_of(dtype);
  if (!has_new_name || json.contains("torch_dtype")) json["torch_dtype"] = name_of(dtype);
  return json;
}

/// Sets whether the head is the embedding, which the weights decide if they have another head (tensor_names.h).
void set_tied(Json& json, bool tied, bool read_as) {
  if (tied != read_as) json["tie_word_embeddings"] = tied;
}

HuggingFaceModel decoder_in_huggingface(const HuggingFaceRequest& request) {
  DecoderConfig config = request.model.decoder;
  config.vocab_size = request.vocab_size;
  if (const auto positions = request.rows("positions")) config.max_positions = *positions;
  if (const auto& file = request.config_file) {
    Json json = read_python_json_file(*file, kMaxConfigBytes);
    Architecture read = architecture_of(json, file->string());
    set_tied(json, config.tie_embeddings, read.config.tie_embeddings);
    read.config.tie_embeddings = config.tie_embeddings;
    if (differences(read.config, canonical(config)).empty())
      return {parameters_of(read.family, read.config), with_dtype(std::move(json), request.dtype)};
  }
  const Architecture chosen = family_of(config);
  return {parameters_of(chosen.family, chosen.config),
          config_json_of(chosen, std::string(name_of(request.dtype)), request.sequence_length)};
}

HuggingFaceModel mamba_in_huggingface(const HuggingFaceRequest& request) {
  MambaConfig config = request.model.mamba;
  config.vocab_size = request.vocab_size;
  std::vector<Parameter> parameters = mamba_layout_of(config).parameters;
  if (const auto& file = request.config_file) {
    Json json = read_python_json_file(*file, kMaxConfigBytes);
    MambaConfig read = mamba_config_of(json, file->string());
    set_tied(json, config.tie_embeddings, read.tie_embeddings);
    read.tie_embeddings = config.tie_embeddings;
    if (differences(read, config).empty()) return {std::move(parameters), with_dtype(std::move(json), request.dtype)};
  }
  return {std::move(parameters), mamba_config_json_of(config, std::string(name_of(request.dtype)))};
}

constexpr ModelFormat kFormats[] = {
    {.type = "decoder",
     .load = [](const ModelConfig& model, const NamedTensors& state,
                const SlicedState& sliced) { load_decoder_weights(model.weights, model.config, state, "", sliced); },
     .to_huggingface = decoder_in_huggingface},
    {.type = "mamba",
     .load = [](const ModelConfig& model, const NamedTensors& state,
                const SlicedState& sliced) { load_mamba_weights(model.weights, model.config, state, sliced); },
     .to_huggingface = mamba_in_huggingface},
    {.type = "prompt_segmentation",
     .load_vision =
         [](const ModelConfig& model, const NamedTensors& state, const SlicedState& sliced) {
           load_tiny_vit_weights(model.vision_weights, state, "encoder.", sliced);
         }},
    {.type = "video_llm",
     .load_vision =
         [](const ModelConfig& model, const NamedTensors& state, const SlicedState& sliced) {
           load_vision_weights(model.vision_weights, model.vision_config, model.video_llm.vision, state, "vision.",
                               sliced);
         },
     .part_keys = "model.llm.weights, model.vision.weights"},
};

}  // namespace

ModelFormat model_format(const std::string& type) {
  const auto found = std::ranges::find(kFormats, type, &ModelFormat::type);
  return found != std::end(kFormats) ? *found : ModelFormat{};
}

std::string huggingface_types() {
  std::string types;
  for (const ModelFormat& each : kFormats)
    if (each.to_huggingface) types += (types.empty() ? "" : ", ") + std::string(each.type);
  return types;
}

}  // namespace plimsoll::weights
