#include "plan/search/min_cut.h"

#include <algorithm>

namespace plimsoll {

void MinCut::add_edge(int32_t from, int32_t to, int64_t capacity) {
  edges_of_[from].push_back(static_cast<int32_t>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<int32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::find_levels(int32_t source, int32_t sink) {
  level_.assign(edges_of_.size(), -1);
  level_[source] = 0;
  std::vector<int32_t> queue{source};
  for (size_t head = 0; head < queue.size(); ++head) {
    const int32_t node = queue[head];
    for (int32_t index : edges_of_[node]) {
      const Edge& edge = edges_[index];
      if (edge.left <= 0 || level_[edge.to] >= 0) continue;
      level_[edge.to] = level_[node] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[sink] >= 0;
}

// Pushes flow along one path at a time through rising levels. It does not recurse: a graph of thousands of ops has
// paths as long.
int64_t MinCut::push(int32_t source, int32_t sink) {
  int64_t total = 0;
  std::vector<int32_t> path;  // edges
  int32_t node = source;
  while (true) {
    if (node == sink) {
      int64_t flow = kNever;
      for (int32_t index : path) flow = std::min(flow, edges_[index].left);
      total += flow;
      for (int32_t index : path) {
        edges_[index].left -= flow;
        edges_[index ^ 1].left += flow;
      }
      path.clear();
      node = source;
      continue;
    }
    bool moved = false;
    for (int32_t& next = next_[node]; next < static_cast<int32_t>(edges_of_[node].size()); ++next) {
      const int32_t index = edges_of_[node][next];
      const Edge& edge = edges_[index];
      if (edge.left <= 0 || level_[edge.to] != level_[node] + 1) continue;
      path.push_back(index);
      node = edge.to;
      moved = true;
      break;
    }
    if (moved) continue;
    if (path.empty()) return total;
    node = edges_[path.back() ^ 1].to;
    path.pop_back();
    ++next_[node];
  }
}

int64_t MinCut::solve(int32_t source, int32_t sink) {
  int64_t flow = 0;
  while (find_levels(source, sink)) {
    next_.assign(edges_of_.size(), 0);
    flow += push(source, sink);
  }
  return flow;
}

}  // namespace plimsoll
