// The cheapest way to cut a directed graph in two: maximum flow, by Dinic's algorithm (Soviet Math. Doklady 1970).
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

/// Nodes are 0 .. size - 1. Deterministic: the same edges in the same order give the same cut.
class MinCut {
 public:
  /// More than any sum of capacities may be: edges that must not be cut.
  static constexpr int64_t kNever = int64_t{1} << 60;

  explicit MinCut(int32_t size) : edges_of_(size) {}

  int32_t add_node() {
    edges_of_.emplace_back();
    return static_cast<int32_t>(edges_of_.size()) - 1;
  }

  /// If `from` is on the source's side and `to` is not, the cut costs `capacity` >= 0.
  void add_edge(int32_t from, int32_t to, int64_t capacity);

  /// The least cost of a cut. Once only.
  int64_t solve(int32_t source, int32_t sink);

  /// After solve(): the source's side of the cut with the fewest nodes on it.
  bool on_source_side(int32_t node) const { return level_[node] >= 0; }

 private:
  struct Edge {
    int32_t to;
    int64_t left;  // the reverse edge is the next or the one before
  };
  bool find_levels(int32_t source, int32_t sink);
  int64_t push(int32_t source, int32_t sink);

  std::vector<Edge> edges_;
  std::vector<std::vector<int32_t>> edges_of_;
  std::vector<int32_t> level_, next_;
};

}  // namespace plimsoll
