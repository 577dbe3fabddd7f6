#include "data/text/bpe_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>

#include "base/file_error.h"
#include "base/hash.h"
#include "files/data_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int kRanksBytesOfByte = 32;             // upper bound of the memory for a byte of the file, in bytes
                                                  // (bpe_ranks.h)
constexpr int64_t kMaxRankFileBytes = 256 * MiB;  // GPT-2's has 0.8 MiB; a larger file is some other file

constexpr std::array<int8_t, 256> make_base64_values() {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    values[static_cast<unsigned char>(alphabet[i])] = static_cast<int8_t>(i);
  return values;
}

std::optional<std::string> decode_base64(std::string_view text) {
  static constexpr std::array<int8_t, 256> values = make_base64_values();
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int held = 0;
  for (char c : text) {
    const int8_t value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<char>((bits >> held) & 0xff));
    bits &= (1u << held) - 1;
  }
  if (bits != 0) return std::nullopt;  // left-over bits: two spellings of one token
  return bytes;
}

struct Line {
  int64_t number = 0;
  int64_t rank = 0;
  std::string token;
};

Line parse_line(std::string_view text, int64_t number, const std::string& name) {
  const auto fail = [&](std::string_view what) -> UserError {
    return UserError(
        fmt::format("{}:{}: {}; a line of a rank file is a token in base64, a space and its rank, as in 'IQ== 0'", name,
                    number, what));
  };
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) throw fail("there is no space");
  std::optional<std::string> token = decode_base64(text.substr(0, space));
  if (!token) throw fail("the token is not base64");
  if (token->size() > BpeRanks::kMaxTokenLength)
    throw fail(fmt::format("the token has {} bytes, at most {} are allowed", token->size(), BpeRanks::kMaxTokenLength));
  const std::string_view digits = text.substr(space + 1);
  int64_t rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (error != std::errc() || end != digits.data() + digits.size() || rank < 0)
    throw fail("the rank is not a whole number from 0 on");
  return {number, rank, std::move(*token)};
}

std::vector<Line> parse_lines(std::string_view text, const std::string& name) {
  std::vector<Line> lines;
  for (int64_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(parse_line(line, number, name));
  }
  if (lines.empty()) throw UserError(fmt::format("{}: the rank file is empty", name));
  return lines;
}

}  // namespace

BpeRanks BpeRanks::read(const std::filesystem::path& file) {
  std::error_code error;
  if (file.empty()) throw UserError("data.tokenizer_file: tokenizer 'gpt2' needs its rank file (gpt2.tiktoken)");
  if (!std::filesystem::is_regular_file(file, error))
    throw UserError(fmt::format("data.tokenizer_file: {} is not a file", file.string()));
  const auto bytes = std::filesystem::file_size(file, error);
  if (!error && bytes > static_cast<uintmax_t>(kMaxRankFileBytes))
    throw UserError(fmt::format("data.tokenizer_file: {} has {}: it is not a rank file", file.string(),
                                format_bytes(static_cast<int64_t>(bytes))));
  if (!error)
    require_data_memory(file.string(),
                        fmt::format("has {} bytes, which take at most {} each", bytes, kRanksBytesOfByte),
                        kRanksBytesOfByte * static_cast<double>(bytes));
  if (error) throw_file_error("read", file, error.value());
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw_file_error("read", file, errno != 0 ? errno : EIO);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(text.size()))) throw_lost_bytes(file, std::ssize(text));
  return parse(text, file.string());
}

BpeRanks BpeRanks::parse(std::string_view text, const std::string& name) {
  std::vector<Line> lines = parse_lines(text, name);
  const std::size_t count = lines.size();
  std::vector<const Line*> by_rank(count, nullptr);
  for (const Line& line : lines) {
    // A rank past the end means that a lower one is missing, which is named below.
    if (static_cast<uint64_t>(line.rank) >= count) continue;
    const Line*& slot = by_rank[static_cast<std::size_t>(line.rank)];
    if (slot)
      throw UserError(
          fmt::format("{}:{}: rank {} was given on line {} already", name, line.number, line.rank, slot->number));
    slot = &line;
  }
  for (std::size_t rank = 0; rank < count; ++rank)
    if (!by_rank[rank])
      throw UserError(
          fmt::format("{}: rank {} is missing; {} tokens have the ranks 0 to {}", name, rank, count, count - 1));

  BpeRanks ranks;
  std::vector<int64_t> line_of(count);
  ranks.tokens_.reserve(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    line_of[rank] = by_rank[rank]->number;
    ranks.tokens_.push_back(by_rank[rank]->token);
  }
  ranks.ranks_.reserve(count);
  ranks.fingerprint_ = hash_bytes({});
  for (std::size_t rank = 0; rank < count; ++rank) {
    const auto [found, fresh] = ranks.ranks_.emplace(ranks.tokens_[rank], static_cast<int32_t>(rank));
    if (!fresh) {
      const int64_t first = line_of[static_cast<std::size_t>(found->second)];
      throw UserError(fmt::format("{}:{}: the token was given on line {} already", name, std::max(first, line_of[rank]),
                                  std::min(first, line_of[rank])));
    }
    // The length goes in too: "a", "bc" and "ab", "c" are different vocabularies.
    ranks.fingerprint_ = hash_bytes(fmt::format("{}:", ranks.tokens_[rank].size()), ranks.fingerprint_);
    ranks.fingerprint_ = hash_bytes(ranks.tokens_[rank], ranks.fingerprint_);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (ranks.rank({&c, 1}) < 0)
      throw UserError(
          fmt::format("{}: byte 0x{:02x} is not among the tokens; all 256 single bytes must be", name, byte));
  }
  return ranks;
}

BpeRanks BpeRanks::of_tokens(std::vector<std::string> tokens, const std::string& name) {
  BpeRanks ranks;
  ranks.tokens_ = std::move(tokens);
  ranks.ranks_.reserve(ranks.tokens_.size());
  ranks.fingerprint_ = hash_bytes({});
  for (std::size_t rank = 0; rank < ranks.tokens_.size(); ++rank) {
    const std::string& token = ranks.tokens_[rank];
    if (token.size() > kMaxTokenLength)
      throw UserError(
          fmt::format("{}: the token {} has {} bytes; at most {}", name, rank, token.size(), kMaxTokenLength),
          UserError::Kind::failure);
    if (!token.empty() && !ranks.ranks_.emplace(token, static_cast<int32_t>(rank)).second)
      throw UserError(fmt::format("{}: the token {} comes twice", name, rank));
    ranks.fingerprint_ = hash_bytes(fmt::format("{}:", token.size()), ranks.fingerprint_);
    ranks.fingerprint_ = hash_bytes(token, ranks.fingerprint_);
  }
  return ranks;
}

void BpeRanks::merge(std::string_view piece, std::vector<int32_t>& out) const {
  const auto rank_of = [&](size_t left, size_t, size_t end) -> std::optional<int32_t> {
    if (end - left > kMaxTokenLength) return std::nullopt;
    const int32_t merged = rank(piece.substr(left, end - left));
    return merged < 0 ? std::nullopt : std::optional(merged);
  };
  const std::vector<size_t> ends = merge_pairs<size_t>(piece.size(), rank_of, [](size_t, size_t, size_t) {});
  for (size_t i = 0; i < piece.size(); i = ends[i]) out.push_back(rank(piece.substr(i, ends[i] - i)));
}

namespace {

constexpr size_t kLetters = 0x144;

struct Letters {
  std::array<uint16_t, 256> of_byte{};
  std::array<int16_t, kLetters> byte_of{};  ///< -1: no byte
};

constexpr Letters kTable = [] {
  Letters table;
  table.byte_of.fill(-1);
  int other = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool seen = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    const int letter = seen ? byte : other++;
    table.of_byte[static_cast<size_t>(byte)] = static_cast<uint16_t>(letter);
    table.byte_of[static_cast<size_t>(letter)] = static_cast<int16_t>(byte);
  }
  return table;
}();

}  // namespace

void append_letters(std::string_view bytes, std::string& letters) {
  for (const char c : bytes) {
    const unsigned letter = kTable.of_byte[static_cast<unsigned char>(c)];
    if (letter < 0x80) {
      letters.push_back(static_cast<char>(letter));
    } else {  // two bytes of UTF-8
      letters.push_back(static_cast<char>(0xc0u | letter >> 6));
      letters.push_back(static_cast<char>(0x80u | (letter & 0x3fu)));
    }
  }
}

bool append_bytes_of_letters(std::string_view letters, std::string& bytes) {
  for (size_t i = 0; i < letters.size();) {
    const auto first = static_cast<unsigned char>(letters[i++]);
    size_t code = first;
    if (first >= 0x80) {
      if (first < 0xc0 || first >= 0xe0 || i == letters.size()) return false;
      code = (first & 0x1fu) << 6 | (static_cast<unsigned char>(letters[i++]) & 0x3fu);
    }
    if (code >= kTable.byte_of.size() || kTable.byte_of[code] < 0) return false;
    bytes.push_back(static_cast<char>(kTable.byte_of[code]));
  }
  return true;
}

}  // namespace plimsoll
