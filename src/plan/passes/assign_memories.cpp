#include "plan/passes/assign_memories.h"

namespace plimsoll {

Trace assign_memories(Trace trace, const std::vector<Memory>& memory) {
  for (size_t b = 0; b < memory.size(); ++b) trace.buffers[b].memory = memory[b];
  return trace;
}

}  // namespace plimsoll
