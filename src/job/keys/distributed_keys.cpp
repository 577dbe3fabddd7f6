#include "job/keys/distributed_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>

#include "job/keys/values.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

using Kind = DistributedKeyReply::Kind;

constexpr const char* kOffload =
    "what ZeRO-Offload and FSDP's offload do is host_memory_budget: BYTES here (for state, gradients and parameters, "
    "disk_budget too); it goes with every strategy: ddp, zero1, zero2, zero3";
constexpr const char* kNothing = "has nothing to do here: the plan decides how devices exchange values";
constexpr const char* kOneMachine = "is so here in any case, unless a launcher starts processes on several machines";
constexpr const char* kMachines =
    "one process a device is started on each machine instead: torchrun --no-python --nnodes MACHINES --nproc-per-node "
    "DEVICES plimsoll train JOB";

/// Kinds of words.
enum class Word : uint8_t { count, nodes, parts, strategy, type, shards, stage, offload, detail, file, rank };

struct Known {
  std::string_view name, origin;
  Word word;
};
// In Lightning's files they may also be under `trainer`, in others under `training`. Names of our keys are included.
constexpr std::array<Known, 40> kKnown = {{
    {"devices", "Lightning", Word::count},
    {"num_devices", "Lightning", Word::count},
    {"gpus", "Lightning", Word::count},
    {"num_nodes", "Lightning", Word::nodes},
    {"strategy", "Lightning", Word::strategy},
    {"sync_batchnorm", "Lightning", Word::detail},
    {"use_distributed_sampler", "Lightning", Word::detail},
    {"num_gpus", "DeepSpeed", Word::count},
    {"n_gpu", "Hugging Face", Word::count},
    {"n_gpus", "PyTorch", Word::count},
    {"ranks", "PyTorch", Word::count},
    {"world_size", "PyTorch", Word::count},
    {"nproc_per_node", "torchrun", Word::count},
    {"nnodes", "torchrun", Word::nodes},
    {"node_rank", "torchrun", Word::rank},
    {"local_rank", "torchrun", Word::rank},
    {"num_processes", "Accelerate", Word::count},
    {"num_machines", "Accelerate", Word::nodes},
    {"machine_rank", "Accelerate", Word::rank},
    {"distributed_type", "Accelerate", Word::type},
    {"tensor_parallel_size", "Megatron", Word::parts},
    {"tensor_model_parallel_size", "Megatron", Word::parts},
    {"pipeline_model_parallel_size", "Megatron", Word::parts},
    {"pipeline_parallel_size", "Megatron", Word::parts},
    {"context_parallel_size", "Megatron", Word::parts},
    {"ddp_find_unused_parameters", "Hugging Face", Word::detail},
    {"fsdp", "Hugging Face", Word::shards},
    {"fsdp_config", "Hugging Face", Word::file},
    {"fsdp_config.sharding_strategy", "Hugging Face", Word::shards},
    {"fsdp_config.fsdp_sharding_strategy", "Accelerate", Word::shards},
    {"fsdp_config.fsdp_offload_params", "Accelerate", Word::offload},
    {"fsdp_config.*", "Hugging Face", Word::detail},
    {"deepspeed", "Hugging Face", Word::file},
    {"deepspeed_config.zero_stage", "Accelerate", Word::stage},
    {"zero_stage", "DeepSpeed", Word::stage},
    {"zero_optimization.stage", "DeepSpeed", Word::stage},
    {"zero_optimization.offload_optimizer", "DeepSpeed", Word::offload},
    {"zero_optimization.offload_param", "DeepSpeed", Word::offload},
    {"zero_optimization.*", "DeepSpeed", Word::detail},
    {"deepspeed_config.*", "Accelerate", Word::detail},
}};
// Words of the same kind with a longer name: a section's device.
constexpr std::array<std::string_view, 4> kOffloadDevices = {
    "zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device",
    "deepspeed_config.offload_optimizer_device", "deepspeed_config.offload_param_device"};

bool is_nothing(std::string_view text) {
  return text.empty() || text == "none" || text == "null" || text == "~" || text == "false" || text == "no" ||
         text == "off";
}

bool says(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Returns the number of devices in "8", "[0, 1]", "0,1", "0," or "auto"; nullopt if the text has none.
std::optional<int64_t> count_in(std::string_view text) {
  if (text == "auto" || text == "-1" || is_nothing(text))
    return 1;  // all devices of the machine, which a launcher
               // counts
  if (text.find_first_of("[,") == std::string_view::npos) return number_in(text);
  int64_t count = 0;
  bool in_item = false;
  for (const char c : text) {
    const bool separates = c == '[' || c == ']' || c == ',' || c == ' ';
    if (!separates && !in_item) ++count;
    in_item = !separates;
  }
  return count;
}

DistributedKeyReply meant(std::string_view key, std::string_view value) {
  return {Kind::meant, std::string(value), std::string(key)};
}

DistributedKeyReply of_count(std::string_view text) {
  const auto count = count_in(text);
  if (count == 0) return {Kind::refused, "it must be at least 1; to train on the CPU set device: cpu"};
  return meant("devices", count ? std::to_string(*count) : std::string(text));
}

/// Replies to "full_shard auto_wrap", "SHARD_GRAD_OP", or Accelerate's number for it.
DistributedKeyReply of_shards(std::string_view text) {
  if (is_nothing(text)) return {Kind::taken, kNothing};
  if (says(text, "offload")) return {Kind::refused, kOffload};
  if (says(text, "hybrid") || text == "4" || text == "5")
    return {Kind::refused,
            "hybrid sharding does not exist here; set strategy: zero3, or auto for the fastest that fits"};
  if (says(text, "no_shard") || text == "3") return meant("strategy", "ddp");
  if (says(text, "shard_grad_op") || text == "2") return meant("strategy", "zero2");
  if (says(text, "full_shard") || text == "1" || text == "true") return meant("strategy", "zero3");
  return meant("strategy", text);
}

/// Replies to Lightning's names of strategies, and to spellings of ours.
DistributedKeyReply of_strategy(std::string_view text) {
  if (says(text, "offload")) return {Kind::refused, kOffload};
  if (is_nothing(text) || text == "single" || text == "single_device") return meant("strategy", "auto");
  if (says(text, "megatron") || says(text, "pipeline") || says(text, "tensor") || text.starts_with("tp_"))
    return {Kind::refused,
            "tensor and pipeline parallelism do not exist here; set strategy: zero3, which slices the parameters too"};
  std::string plain;
  for (const char c : text)
    if (c != '_' && c != '-' && c != ' ') plain += c;
  for (const char* prefix : {"deepspeedstage", "stage", "deepspeedzero", "zerostage", "zero"})
    for (const char* stage : {"1", "2", "3"})
      if (plain == std::string(prefix) + stage) return meant("strategy", std::string("zero") + stage);
  if (plain == "deepspeed") return meant("strategy", "zero2");  // Lightning's default stage
  const auto is_variant_of = [&](std::string_view name, std::initializer_list<std::string_view> variants) {
    if (!plain.starts_with(name)) return false;
    std::string_view rest = std::string_view(plain).substr(name.size());
    for (const std::string_view variant : variants)
      if (rest.starts_with(variant)) rest.remove_prefix(variant.size());
    return rest.empty();
  };
  if (plain == "dp" ||
      is_variant_of("ddp", {"sharded", "spawn", "fork", "notebook", "cpu", "findunusedparameters", "true", "false"}))
    return meant("strategy", "ddp");
  if (plain == "fullysharded" || is_variant_of("fsdp", {"native", "2"})) return meant("strategy", "zero3");
  if (says(text, "shard")) return of_shards(text);
  return meant("strategy", text);
}

/// Replies to Accelerate's distributed_type.
DistributedKeyReply of_type(std::string_view text) {
  if (is_nothing(text)) return {Kind::taken, "asks for one process, which devices: 1 is"};
  if (text.starts_with("multi_")) return meant("strategy", "ddp");
  if (text == "deepspeed") return meant("strategy", "auto");
  if (says(text, "xla") || says(text, "tpu"))
    return {Kind::refused, "that hardware is not supported; 'plimsoll gpus' lists what is"};
  return of_strategy(text);
}

DistributedKeyReply of_stage(std::string_view text) {
  if (is_nothing(text)) return {Kind::taken, kNothing};
  if (text == "0") return meant("strategy", "ddp");
  for (const char* stage : {"1", "2", "3"})
    if (text == stage) return meant("strategy", std::string("zero") + stage);
  return {Kind::refused, "allowed: 0, 1, 2, 3 (strategy: ddp, zero1, zero2, zero3)"};
}

/// Replies to the degrees of tensor, pipeline and context parallelism.
DistributedKeyReply of_parts(std::string_view text) {
  if (count_in(text) == 1) return {Kind::taken, "is so here in any case: no layer is cut over devices"};
  return {Kind::refused,
          "tensor, pipeline and context parallelism do not exist here; set strategy: zero3, which slices parameters, "
          "gradients and optimizer state over the devices"};
}

DistributedKeyReply answer(Word word, std::string_view text) {
  switch (word) {
    case Word::count:
      return of_count(text);
    case Word::nodes:
      return count_in(text) == 1 ? DistributedKeyReply{Kind::taken, kOneMachine}
                                 : DistributedKeyReply{Kind::refused, kMachines};
    case Word::parts:
      return of_parts(text);
    case Word::strategy:
      return of_strategy(text);
    case Word::type:
      return of_type(text);
    case Word::shards:
      return of_shards(text);
    case Word::stage:
      return of_stage(text);
    case Word::offload:
      if (is_nothing(text)) return {Kind::taken, "moves nothing, as without it"};
      return {Kind::refused, kOffload};
    case Word::detail:
      return {Kind::taken, kNothing};
    case Word::rank:
      return {Kind::taken, "has nothing to do here: a launcher's variables say it"};
    case Word::file:
      if (is_nothing(text)) return {Kind::taken, kNothing};
      return {Kind::refused,
              "a settings file of DeepSpeed or FSDP is not read; what it says of batches, fp16, bf16, "
              "gradient_clipping and zero_optimization.stage may stand in the job file under the same names, and "
              "offload is host_memory_budget: BYTES"};
  }
  throw InternalError("answer: no such word");
}

/// Returns the key that a word of this kind means; empty: none, for any value.
std::string_view key_of(Word word) {
  switch (word) {
    case Word::count:
      return "devices";
    case Word::strategy:
    case Word::type:
    case Word::shards:
    case Word::stage:
      return "strategy";
    default:
      return "";
  }
}

/// Returns a value as it is written on a command line: "8", "ddp", "[0,1]".
std::string text_of(const Node& node) {
  std::string text;
  switch (node.kind) {
    case Node::Kind::null:
      return "";
    case Node::Kind::scalar:
      return node.text;
    case Node::Kind::list:
      for (const Node* item : node.items) text += (text.empty() ? "[" : ",") + text_of(*item);
      return text.empty() ? "" : text + "]";
    case Node::Kind::mapping:
      return "{}";
  }
  return "";
}

DistributedKeyReply answered(const Value& value) {
  std::string word = value.key;
  for (const std::string_view section : {"trainer.", "training."})
    if (word.starts_with(section)) word.erase(0, section.size());
  auto answer = reply_to_distributed_key(word, text_of(*value.node));
  check(answer.has_value(), "no word of many devices: " + value.key);
  if (answer->kind == Kind::refused) value.refuse_since(fmt::format("is not taken: {}", answer->what));
  return *std::move(answer);
}

/// Returns the reply to a word that means no key.
std::optional<std::string> stated_value(const Value& value) {
  return answered(value).what;
}
/// Returns the key's value for a word that means a key; nullopt if the word requests nothing.
std::optional<std::string> value_meant(const Value& value) {
  DistributedKeyReply answer = answered(value);
  return answer.kind == Kind::meant ? std::optional(std::move(answer.what)) : std::nullopt;
}

}  // namespace

std::optional<DistributedKeyReply> reply_to_distributed_key(std::string_view word, std::string_view text) {
  std::string name(word);
  std::ranges::replace(name, '-', '_');
  const std::string stated = ascii_lower_case(text);
  if (std::ranges::find(kOffloadDevices, name) != kOffloadDevices.end()) return answer(Word::offload, stated);
  for (const Known& known : kKnown) {
    const bool family = known.name.ends_with(".*");
    const std::string_view begin = known.name.substr(0, known.name.size() - (family ? 1 : 0));
    if (family ? name.starts_with(begin) : name == begin) return answer(known.word, stated);
  }
  return std::nullopt;
}

std::optional<std::string> canonical_distributed_value(const Value& value) {
  if ((value.key != "devices" && value.key != "strategy") || value.node->kind == Node::Kind::null ||
      value.node->kind == Node::Kind::mapping || text_of(*value.node).empty())
    return std::nullopt;
  auto word = value_meant(value);
  // A word that is not known either stays unchanged, for the message.
  return !word || *word == ascii_lower_case(text_of(*value.node)) ? std::nullopt : word;
}

std::vector<Alias> distributed_aliases() {
  std::vector<Alias> all;
  for (const std::string_view name : kOffloadDevices) all.push_back({std::string(name), "DeepSpeed", "", stated_value});
  for (const Known& known : kKnown) {
    const std::string name(known.name), origin(known.origin), key(key_of(known.word));
    const auto convert = key.empty() ? stated_value : value_meant;
    const auto add = [&](std::string alias) {
      all.push_back({std::move(alias), origin, key, convert});
      all.back().general = known.word == Word::type;
    };
    const bool is_key = name == key;
    if (!is_key) add(name);
    if (name.find('.') != std::string::npos) continue;
    add("trainer." + name);
    if (!is_key) add("training." + name);
  }
  return all;
}

}  // namespace plimsoll::job
