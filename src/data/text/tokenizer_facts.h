// Declares what the readers of tokenizers and of cached tokens do with each part of their files. The field * is for
// all keys that are in no earlier row.
#pragma once

#include "files/file_kind.h"

namespace plimsoll::tokenizer_folder {

/// The treatment of each part of the files next to a tokenizer.json or a tokenizer.model.
inline constexpr FileFact kFacts[] = {
    {"tokenizer_config.json", "eos_token", "applied", "ends documents; it must be a token of tokenizer.json"},
    {"tokenizer_config.json", "added_tokens_decoder", "applied", "must be tokens of tokenizer.json"},
    {"tokenizer_config.json", "add_prefix_space", "applied", "must be that of tokenizer.json's ByteLevel"},
    {"tokenizer_config.json", "do_lower_case, strip_accents, tokenize_chinese_chars", "applied",
     "must be that of tokenizer.json's BertNormalizer"},
    {"tokenizer_config.json", "split_special_tokens", "refused", "special tokens in a text are found"},
    {"tokenizer_config.json", "bos_token, add_bos_token", "ignored", "documents begin without a mark"},
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

namespace plimsoll::tokenizer_json {

inline constexpr std::string_view kFile = "tokenizer.json", kModel = "tokenizer.json (model)",
                                  kNormalizer = "tokenizer.json (normalizer)",
                                  kPreTokenizer = "tokenizer.json (pre_tokenizer)";

/// The treatment of each key. A key that is in no row is refused, unless it is null or false.
inline constexpr FileFact kFacts[] = {
    {kFile, "version", "ignored", "of the form of the file"},
    {kFile, "truncation", "ignored", "texts are cut into windows"},
    {kFile, "padding", "ignored", "texts are packed without padding"},
    {kFile, "added_tokens", "applied", "id, content, single_word, lstrip, rstrip, normalized, special"},
    {kFile, "normalizer, pre_tokenizer", "applied", "kinds that are not known are refused"},
    {kFile, "model", "applied", "BPE and WordPiece"},
    {kFile, "post_processor", "ignored", "marks before and after a text are left out"},
    {kFile, "decoder", "ignored", "texts of tokens are concatenated"},
    {kModel, "type", "applied", "BPE, WordPiece"},
    {kModel, "vocab", "applied", "tokens and their numbers"},
    {kModel, "merges", "applied", "texts or pairs, in their order"},
    {kModel, "dropout", "refused", "unless 0: tokens are the same every time"},
    {kModel, "unk_token", "applied", "must be a token"},
    {kModel, "continuing_subword_prefix", "applied", "mark of pieces that continue a word"},
    {kModel, "end_of_word_suffix", "applied", "mark of pieces that end a word"},
    {kModel, "fuse_unk", "applied", "adjacent unknown characters are one token"},
    {kModel, "byte_fallback", "applied", "bytes of characters that no token has"},
    {kModel, "ignore_merges", "applied", "a piece that is a token is not merged"},
    {kModel, "max_input_chars_per_word", "applied", "longer words are unknown"},
    {kNormalizer, "type", "applied", "the kind of a step"},
    {kNormalizer, "normalizers", "applied", "steps of a Sequence"},
    {kNormalizer, "clean_text, handle_chinese_chars, strip_accents, lowercase", "applied", "of a BertNormalizer"},
    {kNormalizer, "strip_left, strip_right", "applied", "of a Strip"},
    {kNormalizer, "prepend", "applied", "of a Prepend"},
    {kNormalizer, "pattern, content", "applied", "of a Replace"},
    {kPreTokenizer, "type", "applied", "the kind of a step"},
    {kPreTokenizer, "pretokenizers", "applied", "steps of a Sequence"},
    {kPreTokenizer, "add_prefix_space", "applied", "of a ByteLevel or a Metaspace"},
    {kPreTokenizer, "use_regex", "applied", "of a ByteLevel"},
    {kPreTokenizer, "trim_offsets", "ignored", "places of tokens in the text"},
    {kPreTokenizer, "pattern, invert", "applied", "of a Split"},
    {kPreTokenizer, "behavior", "applied", "of a Split or a Punctuation"},
    {kPreTokenizer, "individual_digits", "applied", "of a Digits"},
    {kPreTokenizer, "replacement, split", "applied", "of a Metaspace"},
    {kPreTokenizer, "prepend_scheme", "applied", "of a Metaspace; must agree with add_prefix_space"},
    {kPreTokenizer, "str_rep", "ignored", "replacement says so too"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::tokenizer_json

namespace plimsoll::gguf_tokenizer {

inline constexpr std::string_view kFormat = "GGUF (tokenizer)";

/// The treatment of each key of a GGUF file's tokenizer. Keys of tokenizer.ggml that are in no row are
/// refused.
inline constexpr FileFact kFacts[] = {
    {kFormat, "tokenizer.ggml.model", "applied", "gpt2"},
    {kFormat, "tokenizer.ggml.pre", "applied", "gpt-2, smollm"},
    {kFormat, "tokenizer.ggml.tokens", "applied", "texts of the tokens, in the order of their numbers"},
    {kFormat, "tokenizer.ggml.merges", "applied", "must make the tokens in their order"},
    {kFormat, "tokenizer.ggml.eos_token_id", "applied", "ends documents; without it, <|endoftext|> does"},
    {kFormat, "tokenizer.ggml.unknown_token_id", "applied", "a byte that no token has, unless it ends documents"},
    {kFormat, "tokenizer.ggml.add_space_prefix", "refused", "a text begins with its first character"},
    {kFormat, "tokenizer.ggml.remove_extra_whitespaces", "refused", "spaces stay as they are"},
    {kFormat, "tokenizer.ggml.token_type", "ignored", "control tokens in a text are spelled out"},
    {kFormat, "tokenizer.ggml.token_type_count", "ignored", "a size of embeddings that the model does not have"},
    {kFormat, "tokenizer.ggml.scores", "ignored", "merges have their order"},
    {kFormat, "tokenizer.ggml.bos_token_id, tokenizer.ggml.add_bos_token", "ignored", "documents begin without a mark"},
    {kFormat, "tokenizer.ggml.add_eos_token, tokenizer.ggml.add_sep_token", "ignored",
     "documents always end with the end of text"},
    {kFormat, "tokenizer.ggml.eot_token_id, tokenizer.ggml.eom_token_id", "ignored", "of chats"},
    {kFormat, "tokenizer.ggml.padding_token_id", "ignored", "texts are packed without padding"},
    {kFormat,
     "tokenizer.ggml.seperator_token_id, tokenizer.ggml.separator_token_id, tokenizer.ggml.cls_token_id, "
     "tokenizer.ggml.mask_token_id",
     "ignored", "of other kinds of models"},
    {kFormat,
     "tokenizer.ggml.prefix_token_id, tokenizer.ggml.suffix_token_id, tokenizer.ggml.middle_token_id, "
     "tokenizer.ggml.fim_pre_token_id, tokenizer.ggml.fim_suf_token_id, tokenizer.ggml.fim_mid_token_id, "
     "tokenizer.ggml.fim_pad_token_id, tokenizer.ggml.fim_rep_token_id, tokenizer.ggml.fim_sep_token_id",
     "ignored", "of texts with a gap"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::gguf_tokenizer

namespace plimsoll::vocabularies {

inline constexpr std::string_view kModel = "tokenizer.model (SentencePiece)", kRanks = "rank file (gpt2.tiktoken)",
                                  kTokens = "token file (data.cache_dir)";

/// The treatment of each part of the files of tokenizers other than tokenizer.json, and of cached tokens.
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
