#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>

namespace plimsoll {
namespace {

XXH3_state_t* as_state(void* state) {
  return static_cast<XXH3_state_t*>(state);
}

}  // namespace

uint64_t content_hash(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void ContentHasher::Free::operator()(void* state) const {
  XXH3_freeState(as_state(state));
}

ContentHasher::ContentHasher() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  reset();
}

void ContentHasher::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(as_state(state_.get()), bytes.data(), bytes.size());
}

uint64_t ContentHasher::digest() const {
  return XXH3_64bits_digest(as_state(state_.get()));
}

void ContentHasher::reset() {
  XXH3_64bits_reset(as_state(state_.get()));
}

}  // namespace plimsoll
