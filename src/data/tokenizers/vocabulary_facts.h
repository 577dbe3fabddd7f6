// Declares what the readers of tokenizers other than tokenizer.json, and of cached tokens, do with each part.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::vocabularies {

inline constexpr std::string_view kModel = "tokenizer.model (SentencePiece)", kRanks = "rank file (gpt2.tiktoken)",
                                  kTokens = "token file (data.cache_dir)";

inline constexpr FileFact kFacts[] = {
    {kModel, "pieces", "applied", "texts, scores and kinds; a model that is damaged is refused before it is loaded"},
    {kModel, "trainer_spec: model_type", "applied", "unigram, BPE, words, characters"},
    {kModel, "trainer_spec: byte_fallback", "applied", "bytes of characters that no piece has"},
    {kModel, "trainer_spec: eos_id", "applied",
     "ends documents, unless files next to tokenizer.model name another; without one, a new token does, with a note"},
    {kModel, "normalizer_spec: precompiled_charsmap", "applied", "characters that are replaced"},
    {kModel, "normalizer_spec: escape_whitespaces", "applied", "blanks are U+2581 in pieces"},
    {kModel, "normalizer_spec: add_dummy_prefix, remove_extra_whitespaces", "ignored",
     "parts of a text are encoded one by one; no blank is added or removed, so that tokens have every byte"},
    {kModel, "trainer_spec: bos_id, pad_id", "ignored", "documents begin without a mark, and are packed"},
    {kModel, "trainer_spec: all others", "ignored", "how the model was trained"},
    {kRanks, "token and rank", "applied", "a rank that is missing or comes twice is refused"},
    {kTokens, "magic, version, width, vocab size, count", "applied", "others are refused; delete the file"},
    {kTokens, "source hash", "applied",
     "path, size and time of the text, and the tokenizer; a file of another source is written again"},
    {kTokens, "checksums", "applied", "of the trailer, and of each block of 64 KiB when it is read first"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::vocabularies
