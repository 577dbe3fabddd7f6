// Declares what the readers of tokenizers do with the files next to a tokenizer.json or a tokenizer.model. The field *
// is for all keys that are in no earlier row.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::tokenizer_folder {

inline constexpr FileFact kFacts[] = {
    {"tokenizer_config.json", "eos_token", "applied", "ends documents; it must be a token of tokenizer.json"},
    {"tokenizer_config.json", "added_tokens_decoder", "applied", "must be tokens of tokenizer.json"},
    {"tokenizer_config.json", "add_prefix_space", "applied", "must be that of tokenizer.json's ByteLevel"},
    {"tokenizer_config.json", "do_lower_case", "applied", "must be that of tokenizer.json's BertNormalizer"},
    {"tokenizer_config.json", "strip_accents", "applied", "must be that of tokenizer.json's BertNormalizer"},
    {"tokenizer_config.json", "tokenize_chinese_chars", "applied", "must be that of tokenizer.json's BertNormalizer"},
    {"tokenizer_config.json", "split_special_tokens", "refused", "special tokens in a text are found"},
    {"tokenizer_config.json", "bos_token", "ignored", "documents begin without a mark"},
    {"tokenizer_config.json", "add_bos_token", "ignored", "documents begin without a mark"},
    {"tokenizer_config.json", "add_eos_token", "ignored", "documents always end with the end of text"},
    {"tokenizer_config.json", "model_max_length", "ignored", "the job sets data.sequence_length"},
    {"tokenizer_config.json", "chat_template", "ignored", "texts are read as they are"},
    {"tokenizer_config.json", "*", "ignored", "tokenizer.json says how a text is encoded"},
    {"special_tokens_map.json", "eos_token", "applied", "if tokenizer_config.json has none"},
    {"special_tokens_map.json", "*", "ignored", "tokenizer.json has the tokens"},
    {"generation_config.json", "eos_token_id", "applied",
     "the first of a list, if tokenizer_config.json has no eos_token"},
    {"generation_config.json", "*", "ignored", "how texts are generated"},
    {"config.json", "eos_token_id", "applied", "the first of a list, if no other file names the end of a text"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::tokenizer_folder
