#include "job/origin.h"

#include <fmt/format.h>

#include "job/keys/data_kind.h"
#include "job/keys/model_kind.h"

namespace plimsoll::job {

std::map<std::string, std::string> origin_of(const Job& job, const Tokenizer* tokenizer) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  std::map<std::string, std::string> origin = {
      {"model.type", job.model.type},
      {"optimizer.name", job.optimizer.name},
      {"optimizer.state_dtype", std::string(name_of(job.optimizer.state_dtype))},
      {"optimizer.weight_update", std::string(name_of(job.optimizer.weight_update))},
      {"gradient_accumulation_dtype", std::string(name_of(job.accumulator_dtype))},
      {"seed", text(job.seed)},
  };
  if (job.precision != Precision::automatic) origin["precision"] = name_of(job.precision);
  if (tokenizer)
    origin["data.tokenizer"] = tokenizer_text(*tokenizer);
  else
    origin.insert({{"data.type", job.data.type}, {"data.validation_fraction", text(job.data.validation_fraction)}});
  if (const DataKind& kind = data_kind(job.data.type); kind.origin) origin.merge(kind.origin(job));
  origin.merge(model_kind(job.model.type).origin(job));
  const LoraConfig& lora = job.fine_tuning.lora;
  if (!lora.modules.empty()) origin.insert({{"lora.rank", text(lora.rank)}, {"lora.alpha", text(lora.alpha)}});
  return origin;
}

}  // namespace plimsoll::job
