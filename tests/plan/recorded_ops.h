// Declares hand-made ops for tests of passes that look at operands.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll::testing {

/// Returns a whole contiguous buffer.
inline View view(BufferId buffer, std::vector<int64_t> sizes, DType dtype = DType::float32) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return {buffer, dtype, 0, std::move(sizes), std::move(strides)};
}

inline Argument tensor(View view, bool written = false) {
  return {Argument::Kind::tensor, written, {std::move(view)}};
}

inline Op op(std::string name, std::vector<View> read, View written) {
  Op made;
  made.name = std::move(name);
  for (View& each : read) made.arguments.push_back(tensor(std::move(each)));
  made.arguments.push_back(tensor(std::move(written), true));
  for_each_view(made, [&](const View& each, bool) { made.bytes_moved += each.elements() * element_bytes(each.dtype); });
  return made;
}

inline std::vector<std::string> names(const Trace& trace) {
  std::vector<std::string> names;
  for (const Op& op : trace.ops) names.push_back(op.name);
  return names;
}

}  // namespace plimsoll::testing
