// Declares the minimum cut of a directed graph: maximum flow by Dinic's algorithm (Soviet Math. Doklady 1970).
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

/// A graph with nodes 0 .. size - 1. Deterministic: the same edges in the same order give the same cut.
class MinCut {
 public:
  /// Capacity of edges that must not be cut: larger than any sum of other capacities.
  static constexpr int64_t kNever = int64_t{1} << 60;

  explicit MinCut(int32_t size) : edges_of_(size) {}

  int32_t add_node() {
    edges_of_.emplace_back();
    return static_cast<int32_t>(edges_of_.size()) - 1;
  }

  /// Adds an edge of `capacity` >= 0, which is the cost if `from` is on the source's side and `to` is not.
  void add_edge(int32_t from, int32_t to, int64_t capacity);

  /// Returns the least cost of a cut. Call it once.
  int64_t solve(int32_t source, int32_t sink);

  /// Returns whether `node` is on the source's side of the minimum cut with the fewest nodes on that side. Call solve()
  /// first.
  bool on_source_side(int32_t node) const { return level_[node] >= 0; }

 private:
  struct Edge {
    int32_t to;
    int64_t left;  // remaining capacity; the reverse edge is the next or the previous one
  };
  bool find_levels(int32_t source, int32_t sink);
  int64_t push(int32_t source, int32_t sink);

  std::vector<Edge> edges_;
  std::vector<std::vector<int32_t>> edges_of_;
  std::vector<int32_t> level_, next_;
};

}  // namespace plimsoll
