// Declares the region of a loss head that the pass slice_rows cuts into chunks of rows: the matmul of the logits, the
// ops on values with one row for each token, and the matmuls of the gradients.
//
//     level 0     logits = x W^T     p = log_softmax(logits)     l = gather(p)          l: one number for each row
//     (others)                                                                          loss = sum(l), d = gradient of
//     l level 1     (logits, p again)  g = gradient of logits by d                        dx = g W, dW = g^T x
//
// The values with a row of many elements (logits, p, g) exist in chunks only. Other values are whole, and chunks write
// their rows. The ops of one level run in one loop over chunks. A loop repeats the ops of former levels whose results
// it needs. An op has a higher level than another if it needs a value that is complete only behind the other's loop. If
// the gradient d does not depend on the loss, such as that of a mean, all ops have one level: the gradients are
// computed while a chunk's logits exist, and nothing is repeated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "plan/passes/row_layout.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// An op of a region.
struct RegionOp {
  RowRule rule;
  OpRows rows;
  int level = 0;
};

/// A loop over chunks: ops of the region by index, ascending, and the op before which the loop runs.
struct RowLoop {
  std::vector<int32_t> ops;
  std::vector<int32_t> delayed;  ///< other ops before `position`, ascending, that need its results: they run behind it
  int32_t position = 0;
  Phase phase = Phase::forward;
};

/// A region of one segment.
struct RowRegion {
  Segment segment;
  RowSpace space;
  int32_t head = 0;                       ///< op that makes the logits
  int64_t classes = 0;                    ///< elements of a row of logits
  std::map<int32_t, RegionOp> ops;        ///< by index
  std::map<BufferId, RowLayout> layouts;  ///< layouts of buffers whose rows ops of the region write
  std::set<BufferId> chunked;             ///< buffers that exist in chunks only
  std::vector<RowLoop> loops;             ///< by level
};

/// Returns the region of the head `head`, an op of `segment`; nullopt: there is none that can be cut, and gives values
/// with few elements for each row before any gradient.
std::optional<RowRegion> row_region(const Trace& trace, const Segment& segment, int32_t head,
                                    const RowSlicing& slicing);

/// Returns the region with its loops; nullopt: there is no order in which they can run. `narrow`: ops that use no
/// chunked buffer, which are removed from the region unless others of their level need them.
std::optional<RowRegion> with_loops(const Trace& trace, RowRegion region, std::set<int32_t> narrow);

}  // namespace plimsoll
