#include "device/allocation_frame.h"

#include <algorithm>
#include <stdexcept>

namespace plimsoll {
namespace {

thread_local ScratchLimit* scratch_limit = nullptr;

}  // namespace

ScratchLimit::ScratchLimit(int64_t bytes) : bytes_(bytes), before_(scratch_limit) {
  scratch_limit = this;
}

ScratchLimit::~ScratchLimit() {
  scratch_limit = before_;
}

void ScratchLimit::require(int64_t bytes) {
  if (!scratch_limit || bytes <= scratch_limit->bytes_) return;
  scratch_limit->exceeded_ = true;
  throw std::runtime_error("the op needs more scratch than it may take here");
}

void AllocationFrame::begin(const std::vector<Output>& outputs, std::byte* workspace, int64_t workspace_bytes,
                            int64_t alignment) {
  outputs_.assign(outputs.begin(), outputs.end());
  workspace_ = workspace;
  workspace_bytes_ = workspace_bytes;
  alignment_ = alignment;
  blocks_.clear();
  high_water_ = out_of_arena_bytes_ = out_of_arena_peak_ = 0;
}

AllocationFrame::Usage AllocationFrame::end() const {
  Usage usage{.workspace_bytes = high_water_, .out_of_arena_bytes = out_of_arena_peak_};
  for (const Block& block : blocks_) (block.out_of_arena ? usage.escaped : usage.escaped_arena) = true;
  return usage;
}

int64_t AllocationFrame::rounded(size_t bytes) const {
  return (static_cast<int64_t>(bytes) + alignment_ - 1) / alignment_ * alignment_;
}

void* AllocationFrame::place_for(size_t bytes) {
  for (Output& output : outputs_) {
    if (output.taken || output.bytes != bytes) continue;
    output.taken = true;
    return output.place;
  }
  const int64_t offset = find_gap(rounded(bytes));
  if (workspace_ == nullptr || offset + rounded(bytes) > workspace_bytes_) {
    ScratchLimit::require(out_of_arena_bytes_ + rounded(bytes));
    return nullptr;
  }
  void* const address = workspace_ + offset;
  add_block({offset, rounded(bytes), address, /*outside=*/false});
  return address;
}

void AllocationFrame::add_out_of_arena(void* address, size_t bytes) {
  add_block({find_gap(rounded(bytes)), rounded(bytes), address, /*outside=*/true});
}

// Places scratch first-fit in an imaginary region without end. The end of the last block is the workspace that the op's
// plan should have had.
int64_t AllocationFrame::find_gap(int64_t bytes) const {
  int64_t offset = 0;
  for (const Block& block : blocks_) {
    if (block.offset - offset >= bytes) break;
    offset = std::max(offset, block.offset + block.bytes);
  }
  return offset;
}

void AllocationFrame::add_block(const Block& block) {
  const auto at =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& other) { return other.offset > block.offset; });
  blocks_.insert(at, block);
  high_water_ = std::max(high_water_, block.offset + block.bytes);
  if (block.out_of_arena) out_of_arena_peak_ = std::max(out_of_arena_peak_, out_of_arena_bytes_ += block.bytes);
}

bool AllocationFrame::lent(void* address) const {
  if (workspace_ != nullptr && address >= workspace_ && address < workspace_ + workspace_bytes_) return true;
  return std::any_of(outputs_.begin(), outputs_.end(), [&](const Output& output) { return output.place == address; });
}

bool AllocationFrame::release(void* address) {
  const auto found =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.address == address; });
  if (found == blocks_.end()) return false;
  if (found->out_of_arena) out_of_arena_bytes_ -= found->bytes;
  blocks_.erase(found);
  return true;
}

}  // namespace plimsoll
