// Declares small traces from text, for planner tests.
//
//     micro                       a segment
//     f layers.0 h = linear x w   forward in module layers.0: op "linear" reads x and w and makes h
//     b layers.0 g <- h           backward: op writes g in place, reads h (g must exist)
//     u w <- g
//
// Buffers are declared first: `buffer NAME BYTES [persistent|state|output]`, where persistent is an input that the host
// writes and state is written once, before anything runs; the others take 64 bytes. `a,b = x` makes two. A word
// `random` after the module gives the op a random id. An op moves as many bytes as its operands have.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll::testing {

/// The ops of two blocks, each with a wide intermediate that backward needs, and an update. Ops 0-3 are forward, 4-7
/// backward, 8-9 update. Buffers are declared before.
inline const std::string kTwoBlockOps = R"(
micro
f layers.0 h0 = x w0
f layers.0 y0 = h0
f layers.1 h1 = y0 w1
f layers.1 y1 = h1
b layers.1 d1 = y1 h1
b layers.1 g1 = d1 y0
b layers.0 d0 = d1 h0
b layers.0 g0 = d0 x
update
u - w1 <- g1
u - w0 <- g0
)";

/// Those blocks with their buffers.
inline const std::string kTwoBlocks = R"(
buffer x 64 persistent
buffer w0 64 persistent
buffer w1 64 persistent
buffer h0 1024
buffer h1 1024
)" + kTwoBlockOps;

class TraceText {
 public:
  explicit TraceText(const std::string& text) {
    trace.modules.emplace_back("");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) read_line(line);
    if (!trace.segments.empty()) trace.segments.back().end = static_cast<int32_t>(trace.ops.size());
  }

  BufferId operator[](const std::string& name) const { return ids.at(name); }

  Trace trace;
  std::map<std::string, BufferId> ids;

 private:
  BufferId buffer(const std::string& name) {
    const auto [entry, added] = ids.try_emplace(name, static_cast<BufferId>(trace.buffers.size()));
    if (added) trace.buffers.push_back({64, Role::temporary, false, false, name});
    return entry->second;
  }

  View view(const std::string& name) {
    const BufferId id = buffer(name);
    return {id, DType::uint8, 0, {trace.buffers[id].bytes}, {1}};
  }

  static SegmentKind segment_kind(const std::string& name) {
    for (int kind = 0; kind <= static_cast<int>(SegmentKind::evaluate); ++kind)
      if (name_of(static_cast<SegmentKind>(kind)) == name) return static_cast<SegmentKind>(kind);
    throw InternalError("no segment is named " + name);
  }

  void read_line(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word)) return;
    if (word == "buffer") {
      std::string name, kind;
      int64_t bytes;
      words >> name >> bytes;
      Buffer& made = trace.buffers[buffer(name)];
      made.bytes = bytes;
      while (words >> kind) {
        made.persistent = made.persistent || kind != "output";
        made.output = made.output || kind == "output";
      }
      if (kind == "persistent") trace.inputs.push_back({name, view(name)});
      if (kind == "state") {
        trace.state.push_back({name, view(name)});
        trace.constants.push_back({trace.state.back().view.buffer, std::vector<std::byte>(made.bytes)});
      }
      return;
    }
    if (word == "f" || word == "b" || word == "u") return read_op(word, words);
    const auto here = static_cast<int32_t>(trace.ops.size());
    if (!trace.segments.empty()) trace.segments.back().end = here;
    trace.segments.push_back({segment_kind(word), here, here});
  }

  void read_op(const std::string& phase, std::istringstream& words) {
    Op op;
    op.phase = phase == "f" ? Phase::forward : phase == "b" ? Phase::backward : Phase::update;
    std::string module, word, operation;
    words >> module;
    for (size_t i = 0; i < trace.modules.size(); ++i)
      if (trace.modules[i] == module) op.module = static_cast<int32_t>(i);
    if (op.module == 0 && module != "-") {
      op.module = static_cast<int32_t>(trace.modules.size());
      trace.modules.push_back(module);
    }
    words >> word;
    if (word == "random") {
      op.random_id = next_random_++;
      words >> word;
    }
    std::string arrow;
    words >> arrow;
    check(arrow == "=" || arrow == "<-", "expected = or <-");
    op.name = "make_" + word;
    std::istringstream made(word);
    for (std::string name; std::getline(made, name, ',');) {
      if (arrow == "=")
        op.results.push_back(view(name));
      else
        op.arguments.push_back({Argument::Kind::tensor, true, {view(name)}});
    }
    while (words >> word) op.arguments.push_back({Argument::Kind::tensor, false, {view(word)}});
    for_each_view(op, [&](const View& view, bool) { op.bytes_moved += trace.buffers[view.buffer].bytes; });
    trace.ops.push_back(std::move(op));
  }

  int64_t next_random_ = 0;
};

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
