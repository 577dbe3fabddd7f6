#include <utility>

#include "job/values/distributed_keys.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

DevicesWord::Kind kind_of(job::DistributedKeyReply::Kind kind) {
  using Kind = job::DistributedKeyReply::Kind;
  if (kind == Kind::meant) return DevicesWord::Kind::key;
  return kind == Kind::taken ? DevicesWord::Kind::needless : DevicesWord::Kind::refused;
}

}  // namespace

std::optional<DevicesWord> devices_word(std::string_view word, std::string_view value) {
  std::optional<job::DistributedKeyReply> answer = job::reply_to_distributed_key(word, value);
  if (!answer) return std::nullopt;
  return DevicesWord{kind_of(answer->kind), std::move(answer->key), std::move(answer->what)};
}

}  // namespace plimsoll
