#include "job/values/many_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "job/values/lower_case.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

constexpr const char* kCopies =
    "training on several devices is not there yet; on one, gradient_accumulation_steps makes the effective batch of "
    "several";
constexpr const char* kShards =
    "sharding over several devices is not there yet; on one, host_memory_budget: BYTES holds what the others would";
constexpr const char* kOffload =
    "what ZeRO-Offload and FSDP's offload do on one device is host_memory_budget: BYTES here (for state, gradients and "
    "parameters, disk_budget too); several devices are not there yet";
constexpr const char* kOneDevice = "is so here in any case: one device is used";
constexpr const char* kNothing = "is of several devices, and there is nothing to it on one";

/// The kinds of words there are.
enum class Word : uint8_t { count, strategy, shards, stage, offload, detail, file, rank };

struct Known {
  std::string_view name, origin;
  Word word;
};
// In Lightning's files they also stand under `trainer`, in others under `training`.
constexpr std::array<Known, 32> kKnown = {{
    {"devices", "Lightning", Word::count},
    {"num_devices", "Lightning", Word::count},
    {"gpus", "Lightning", Word::count},
    {"num_nodes", "Lightning", Word::count},
    {"strategy", "Lightning", Word::strategy},
    {"sync_batchnorm", "Lightning", Word::detail},
    {"use_distributed_sampler", "Lightning", Word::detail},
    {"num_gpus", "DeepSpeed", Word::count},
    {"n_gpu", "Hugging Face", Word::count},
    {"n_gpus", "PyTorch", Word::count},
    {"world_size", "PyTorch", Word::count},
    {"nproc_per_node", "torchrun", Word::count},
    {"nnodes", "torchrun", Word::count},
    {"node_rank", "torchrun", Word::rank},
    {"local_rank", "torchrun", Word::rank},
    {"num_processes", "Accelerate", Word::count},
    {"num_machines", "Accelerate", Word::count},
    {"distributed_type", "Accelerate", Word::strategy},
    {"tensor_parallel_size", "Megatron", Word::count},
    {"tensor_model_parallel_size", "Megatron", Word::count},
    {"pipeline_model_parallel_size", "Megatron", Word::count},
    {"context_parallel_size", "Megatron", Word::count},
    {"ddp_find_unused_parameters", "Hugging Face", Word::detail},
    {"fsdp", "Hugging Face", Word::shards},
    {"fsdp_config", "Hugging Face", Word::shards},
    {"fsdp_config.*", "Hugging Face", Word::shards},
    {"deepspeed", "Hugging Face", Word::file},
    {"zero_stage", "DeepSpeed", Word::stage},
    {"zero_optimization.stage", "DeepSpeed", Word::stage},
    {"zero_optimization.offload_optimizer", "DeepSpeed", Word::offload},
    {"zero_optimization.offload_param", "DeepSpeed", Word::offload},
    {"zero_optimization.*", "DeepSpeed", Word::detail},
}};
// Of one word several keys: what lies in host memory or on the disk, and where.
constexpr std::array<std::string_view, 2> kOffloadDevices = {"zero_optimization.offload_optimizer.device",
                                                             "zero_optimization.offload_param.device"};

bool is_nothing(std::string_view text) {
  return text.empty() || text == "none" || text == "null" || text == "~" || text == "false" || text == "no" ||
         text == "off";
}

/// How many devices "8", "[0, 1]", "0,1" or "auto" are; nothing where that cannot be told.
std::optional<int64_t> count_in(std::string_view text) {
  if (text == "auto" || text == "-1" || is_nothing(text)) return 1;  // as many as are there, and one is used
  if (text.find_first_of("[,") != std::string_view::npos) return std::ranges::count(text, ',') + 1;
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return count;
}

DevicesAnswer of_strategy(std::string_view text) {
  if (text.find("offload") != std::string_view::npos) return {true, kOffload};
  if (is_nothing(text) || text == "auto" || text == "single" || text == "single_device") return {false, kOneDevice};
  for (const char* sharding : {"fsdp", "deepspeed", "zero", "shard", "megatron"})
    if (text.find(sharding) != std::string_view::npos) return {true, kShards};
  return {true, kCopies};
}

DevicesAnswer answer(Word word, std::string_view text) {
  switch (word) {
    case Word::count:
      if (count_in(text) == 0) return {true, "device: cpu says that there is none to train on"};
      return count_in(text) == 1 ? DevicesAnswer{false, kOneDevice} : DevicesAnswer{true, kCopies};
    case Word::strategy:
      return of_strategy(text);
    case Word::shards:
      if (is_nothing(text)) return {false, kNothing};
      return {true, text.find("offload") == std::string_view::npos ? kShards : kOffload};
    case Word::stage:
      if (text == "0" || is_nothing(text)) return {false, kNothing};
      return {true, kShards};
    case Word::offload:
      if (is_nothing(text)) return {false, "moves nothing, as without it"};
      return {true, kOffload};
    case Word::detail:
    case Word::rank:
      return {false, kNothing};
    case Word::file:
      if (is_nothing(text)) return {false, kNothing};
      return {
          true,
          "a file of DeepSpeed's is not read; what it says of batches, fp16, bf16 and gradient_clipping may stand in "
          "the job file under the same names, and offload is host_memory_budget: BYTES"};
  }
  throw InternalError("answer: no such word");
}

/// What a value says, in the words of a command line: "8", "ddp", "[0,1]".
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

std::optional<std::string> answered(const Value& value) {
  std::string word = value.key;
  for (const std::string_view section : {"trainer.", "training."})
    if (word.starts_with(section)) word.erase(0, section.size());
  const auto answer = answer_of_devices(word, text_of(*value.node));
  check(answer.has_value(), "no word of many devices: " + value.key);
  if (answer->refused) value.refuse_since(fmt::format("is not taken: {}", answer->what));
  return answer->what;
}

}  // namespace

std::optional<DevicesAnswer> answer_of_devices(std::string_view word, std::string_view text) {
  std::string name(word);
  std::ranges::replace(name, '-', '_');
  const std::string said = ascii_lower_case(text);
  if (std::ranges::find(kOffloadDevices, name) != kOffloadDevices.end()) return answer(Word::offload, said);
  for (const Known& known : kKnown) {
    const bool family = known.name.ends_with(".*");
    const std::string_view begin = known.name.substr(0, known.name.size() - (family ? 1 : 0));
    if (family ? name.starts_with(begin) : name == begin) return answer(known.word, said);
  }
  return std::nullopt;
}

std::vector<Alias> aliases_of_devices() {
  std::vector<Alias> all;
  for (const std::string_view name : kOffloadDevices) all.push_back({std::string(name), "DeepSpeed", "", answered});
  for (const Known& known : kKnown) {
    const std::string name(known.name), origin(known.origin);
    all.push_back({name, origin, "", answered});
    if (known.name.find('.') == std::string_view::npos) {
      all.push_back({"trainer." + name, origin, "", answered});
      all.push_back({"training." + name, origin, "", answered});
    }
  }
  return all;
}

}  // namespace plimsoll::job
