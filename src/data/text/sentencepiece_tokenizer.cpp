#include "data/text/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <optional>
#include <unordered_map>

#include "base/file_error.h"
#include "base/hash.h"
#include "base/text.h"
#include "data/text/sentencepiece_check.h"
#include "data/text/tokenizer.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

// Exported by the library, and declared in none of its headers.
namespace sentencepiece::logging {
void SetMinLogLevel(int level);
}

namespace plimsoll {
namespace {

constexpr int kModelBytesOfByte = 64;                    // upper bound of the memory for a byte of the file, in bytes
                                                         // (sentencepiece_tokenizer.h)
constexpr std::uintmax_t kMaxModelFileBytes = 64 * MiB;  // Mistral's has 0.5 MiB, Gemma's 4
constexpr std::string_view kSpace = "\xe2\x96\x81";      // U+2581, which represents a space in pieces
constexpr std::string_view kUnknown = "\xef\xbf\xbd";
constexpr size_t kMaxStretchBytes = size_t{1} * MiB;  // maximum bytes of text without an allowed cut that the library
                                                      // gets whole
constexpr size_t kMaxKnownWords = 65536, kMaxKnownWordBytes = 64;  // words whose tokens encode() remembers: 16 MiB
// Part of the fingerprint; its number is raised if the same model encodes a text into other tokens. 2: texts are
// encoded word by word.
constexpr std::string_view kEncoding = "sentencepiece 2";
constexpr int kNothing = 4;  // above the library's highest level: the results report errors

// A protobuf message may be given in parts; the last value of each field holds: normalizer_spec {add_dummy_prefix:
// false, remove_extra_whitespaces: false} (sentencepiece_model.proto).
constexpr std::string_view kRulesOff("\x1a\x04\x18\x00\x20\x00", 6);

std::string read_model(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_other(file, error)) throw_not_regular(file);
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error) throw_file_error("read", file, error.value());
  if (size > kMaxModelFileBytes)
    throw UserError(
        fmt::format("{}: has {} bytes, more than any SentencePiece model; data.tokenizer_file names a .model "
                    "file",
                    file.string(), size));
  require_data_memory(file.string(), fmt::format("has {} bytes, which take at most {} each", size, kModelBytesOfByte),
                      kModelBytesOfByte * static_cast<double>(size));
  std::string bytes(size, '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(bytes.data(), std::ssize(bytes)) && (!stream.is_open() || stream.bad()))
    throw_file_error("read", file, errno);
  if (!stream) throw_lost_bytes(file, static_cast<int64_t>(size));
  return bytes;
}

/// Returns the bytes of the valid UTF-8 character that `text` begins with (RFC 3629); 0 if there is none.
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && second < 0xa0, surrogate = first == 0xed && second > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && second < 0x90, beyond = first == 0xf4 && second > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

struct SentencePieceTokenizer::Impl {
  explicit Impl(const std::filesystem::path& file) : file_name(file.string()) {
    sentencepiece::logging::SetMinLogLevel(kNothing);
    const std::string bytes = read_model(file);
    fingerprint = hash_bytes(bytes, hash_bytes(kEncoding));
    const auto refuse = [&](std::string_view why) {
      throw UserError(fmt::format("{}: is not a SentencePiece model ({}); data.tokenizer_file names a .model file",
                                  file.string(), why));
    };
    if (bytes.empty()) refuse("it is empty");
    if (const std::string problem = sentencepiece_model_problem(bytes); !problem.empty()) refuse(problem);
    try {
      const sentencepiece::util::Status status = processor.LoadFromSerializedProto(bytes + std::string(kRulesOff));
      if (!status.ok()) refuse("it does not read as one");
    } catch (const UserError&) {
      throw;
    } catch (const std::exception& error) {
      refuse(error.what());
    }
    pieces = processor.GetPieceSize();
    if (pieces < 1) refuse("it has no pieces");
    byte_ids.fill(-1);
    for (int id = 0; id < pieces; ++id) look_at(id);
    // Adjacent unknown characters are one token: a space that is no piece is joined with its neighbors. A model with
    // pieces for bytes has no unknown characters.
    if (!knows_space && std::ranges::all_of(byte_ids, [](int32_t id) { return id < 0; })) crosses_words = true;
    find_end_of_text(file);
  }

  /// Sets the end of a text: the model's own, unless the files next to it name another.
  void find_end_of_text(const std::filesystem::path& file) {
    end_of_text = processor.eos_id();
    // Files next to a file of another name may belong to another tokenizer.
    const std::optional<NamedEnd> end =
        file.filename() == "tokenizer.model" ? named_end_in(file.parent_path()) : std::nullopt;
    if (end) {
      int32_t named = end->id < pieces ? static_cast<int32_t>(end->id) : -1;
      if (end->content) {
        named = processor.PieceToId(*end->content);
        if (processor.IdToPiece(named) != *end->content) named = -1;
      }
      if (named < 0)
        throw UserError(without_controls(fmt::format("{}, and {} has no such token; name one of its tokens", end->place,
                                                     file.string())),
                        UserError::Kind::failure);
      // The end is part of the cached tokens of a text.
      if (named != end_of_text) fingerprint = hash_bytes(fmt::format("end {}", named), fingerprint);
      end_of_text = named;
    }
    if (end_of_text >= 0) return;
    end_of_text = pieces;
    note_data(without_controls(file.string()),
              fmt::format("names no end of text: documents end with a new token, {}", end_of_text));
  }

  void look_at(int id) {
    const std::string& piece = processor.IdToPiece(id);
    if (processor.IsByte(id)) {  // "<0x0A>"
      unsigned value = 256;
      if (piece.size() == 6) std::sscanf(piece.c_str(), "<0x%2X>", &value);
      if (value < 256) byte_ids[value] = id;
      return;
    }
    if (processor.IsControl(id) || processor.IsUnknown(id)) return;
    if (piece == kSpace && !processor.IsUnused(id)) knows_space = true;
    for (size_t at = 0; (at = piece.find(kSpace, at)) != std::string::npos; at += kSpace.size())
      if (at > 0 && std::string_view(piece).substr(0, at).ends_with(kSpace) == false) crosses_words = true;
  }

  /// Returns true if the text may be cut before byte `at` > 0: at a space after a visible ASCII character. No piece and
  /// no rule of normalization contains both.
  static bool is_cut(std::string_view text, size_t at) {
    return text[at] == ' ' && text[at - 1] > ' ' && text[at - 1] < 0x7f;
  }

  std::size_t last_cut(std::string_view text) const {
    if (crosses_words) return 0;
    for (size_t at = text.size(); at-- > 1;)
      if (is_cut(text, at)) return at;
    return 0;
  }

  /// Returns the first allowed cut of the text's first kMaxStretchBytes; the text's size if it is shorter and has none.
  std::size_t first_cut(std::string_view text) const {
    for (size_t at = 1; !crosses_words && at < std::min(text.size(), kMaxStretchBytes); ++at)
      if (is_cut(text, at)) return at;
    return text.size() > kMaxStretchBytes ? forced_cut(text) : text.size();
  }

  /// Returns the cut of a text that has no allowed cut in its first kMaxStretchBytes: after the last line break there
  /// or, without one, after the last character. The pieces on both sides of the cut may differ from those of the whole
  /// text.
  static std::size_t forced_cut(std::string_view text) {
    std::size_t end = kMaxStretchBytes;
    if (const std::size_t line = text.rfind('\n', end - 1); line != std::string_view::npos) return line + 1;
    while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    return end;
  }

  /// Encodes valid UTF-8 word by word. The library adds the scores of a text's pieces in float32: in a long text the
  /// sum's rounding decides between segmentations, so the tokens of a word would depend on the text before it.
  void encode_text(std::string_view text, std::vector<int32_t>& tokens) const {
    std::unordered_map<std::string, std::vector<int>> known;
    std::vector<int> ids;
    while (!text.empty()) {
      const std::string word(text.substr(0, first_cut(text)));
      text.remove_prefix(word.size());
      const auto found = known.find(word);
      if (found == known.end()) {
        const sentencepiece::util::Status status = processor.Encode(word, &ids);
        // SentencePiece finds some contradictions of a model only in the text that meets them.
        if (!status.ok())
          throw UserError(
              without_controls(fmt::format("{}: SentencePiece does not encode a text with it ({}); the model "
                                           "contradicts itself, take another copy of it",
                                           file_name, status.ToString())),
              UserError::Kind::failure);
        if (word.size() <= kMaxKnownWordBytes && known.size() < kMaxKnownWords) known.emplace(word, ids);
      }
      const std::vector<int>& all = found == known.end() ? ids : found->second;
      tokens.insert(tokens.end(), all.begin(), all.end());
    }
  }

  const std::string file_name;
  sentencepiece::SentencePieceProcessor processor;
  int pieces = 0;
  int32_t end_of_text = -1;
  uint64_t fingerprint = 0;
  bool crosses_words = false;           // a token may have a space after another character
  bool knows_space = false;             // a single space is a piece
  std::array<int32_t, 256> byte_ids{};  // -1: none
};

SentencePieceTokenizer::SentencePieceTokenizer(const std::filesystem::path& model_file)
    : impl_(std::make_unique<Impl>(model_file)) {}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::vector<int32_t> SentencePieceTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = character(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    // The library ends some texts at a zero byte, and replaces bytes that are no UTF-8.
    if (length > 0 && byte != 0) {
      at += length;
      continue;
    }
    impl_->encode_text(text.substr(begin, at - begin), tokens);
    const int32_t id = impl_->byte_ids[byte];
    tokens.push_back(id >= 0 ? id : impl_->processor.unk_id());
    begin = ++at;
  }
  impl_->encode_text(text.substr(begin), tokens);
  return tokens;
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> tokens) const {
  const sentencepiece::SentencePieceProcessor& processor = impl_->processor;
  std::string text;
  for (int32_t token : tokens) {
    if (token == end_of_text()) continue;
    if (token < 0 || token >= impl_->pieces)
      throw UserError(fmt::format("token {} is not in the vocabulary of tokenizer 'sentencepiece' (0 to {})", token,
                                  vocab_size() - 1));
    const std::string& piece = processor.IdToPiece(token);
    if (processor.IsControl(token)) continue;
    if (processor.IsUnknown(token)) {
      text += kUnknown;
    } else if (processor.IsByte(token)) {
      const auto found = std::ranges::find(impl_->byte_ids, token);
      text.push_back(static_cast<char>(found - impl_->byte_ids.begin()));
    } else {
      for (size_t at = 0; at < piece.size();) {
        const bool space = std::string_view(piece).substr(at).starts_with(kSpace);
        text.push_back(space ? ' ' : piece[at]);
        at += space ? kSpace.size() : 1;
      }
    }
  }
  return text;
}

int64_t SentencePieceTokenizer::vocab_size() const {
  return impl_->pieces + (impl_->end_of_text == impl_->pieces ? 1 : 0);
}

int32_t SentencePieceTokenizer::end_of_text() const {
  return impl_->end_of_text;
}

uint64_t SentencePieceTokenizer::fingerprint() const {
  return impl_->fingerprint;
}

std::size_t SentencePieceTokenizer::last_cut(std::string_view text) const {
  return impl_->last_cut(text);
}

}  // namespace plimsoll
