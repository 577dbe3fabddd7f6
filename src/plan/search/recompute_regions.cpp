#include "plan/search/recompute_regions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "plan/search/min_cut.h"

namespace plimsoll {
namespace {

// Bound of all prices together: sums of prices and costs stay below MinCut::kNever.
constexpr double kMaxPriced = static_cast<double>(MinCut::kNever >> 4);

// A run of forward ops in one block: its first op, and whether it is a block of the model.
struct BlockRun {
  int32_t begin;
  bool block;
};

std::vector<BlockRun> block_runs(const Trace& trace, const TrainingGraph& graph) {
  std::vector<std::string> blocks;
  for (const std::string& module : trace.modules) blocks.push_back(block_path(module));
  std::vector<BlockRun> runs;
  std::string current;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.steps.size()); ++i) {
    const std::string& block = blocks[trace.ops[graph.steps[i].op].module];
    if (!runs.empty() && block == current) continue;
    runs.push_back({i, !block.empty()});
    current = block;
  }
  return runs;
}

// A choice of the values to keep from a set, at a price of a byte.
class CutProblem {
 public:
  /// Prepares the choice for forward ops [begin, end). `own` values may be kept or recomputed; `wanted` values are
  /// needed. With `foreign_costs`, other values that no backward op needs cost their bytes if recomputed ops read them.
  CutProblem(const TrainingGraph& graph, int32_t begin, int32_t end, const std::vector<int32_t>& own,
             std::vector<char> wanted, bool foreign_costs)
      : graph_(graph), begin_(begin), end_(end), own_(own), wanted_(std::move(wanted)), foreign_costs_(foreign_costs) {}

  /// Returns the best choice at `price` picoseconds a byte.
  RegionChoice solve(double price) const {
    constexpr int32_t source = 0, sink = 1;
    MinCut cut(2);
    std::vector<int32_t> value_node(graph_.values.size(), -1), step_node(end_ - begin_, -1);
    for (int32_t v : own_) value_node[v] = cut.add_node();
    for (int32_t s = begin_; s < end_; ++s) step_node[s - begin_] = cut.add_node();
    const auto priced = [&](int64_t bytes) {
      return std::llround(std::min(price * static_cast<double>(bytes), kMaxPriced));
    };
    for (int32_t v : own_) {
      const ForwardValue& value = graph_.values[v];
      if (wanted_[v]) cut.add_edge(source, value_node[v], MinCut::kNever);
      if (!value.repeatable) {
        cut.add_edge(value_node[v], sink, priced(value.bytes));
        continue;
      }
      int32_t maker = step_node[value.makers.front() - begin_];
      if (value.makers.size() > 1) {
        maker = cut.add_node();
        for (int32_t each : value.makers) cut.add_edge(maker, step_node[each - begin_], MinCut::kNever);
      }
      cut.add_edge(value_node[v], maker, priced(value.bytes));
    }
    std::map<int32_t, int32_t> foreign_node;
    for (int32_t s = begin_; s < end_; ++s) {
      const ForwardOp& step = graph_.steps[s];
      const int32_t node = step_node[s - begin_];
      cut.add_edge(node, sink, step.cost);
      for (int32_t v : step.reads) {
        if (value_node[v] >= 0) {
          cut.add_edge(node, value_node[v], MinCut::kNever);
        } else if (foreign_costs_ && !graph_.values[v].needed()) {
          const auto [entry, added] = foreign_node.try_emplace(v, 0);
          if (added) {
            entry->second = cut.add_node();
            cut.add_edge(entry->second, sink, priced(graph_.values[v].bytes));
          }
          cut.add_edge(node, entry->second, MinCut::kNever);
        }
      }
    }
    cut.solve(source, sink);

    RegionChoice choice;
    std::vector<char> again(end_ - begin_, 0);
    for (int32_t s = begin_; s < end_; ++s) {
      again[s - begin_] = cut.on_source_side(step_node[s - begin_]);
      if (again[s - begin_]) choice.cost += graph_.steps[s].cost;
    }
    for (int32_t v : own_) {
      if (!cut.on_source_side(value_node[v])) continue;
      const ForwardValue& value = graph_.values[v];
      if (value.repeatable && again[value.makers.front() - begin_]) continue;
      choice.kept.push_back(v);
      choice.bytes += value.bytes;
    }
    for (const auto& [v, node] : foreign_node) {
      if (!cut.on_source_side(node)) continue;
      choice.foreign.push_back(v);
      choice.bytes += graph_.values[v].bytes;
    }
    return choice;
  }

 private:
  const TrainingGraph& graph_;
  int32_t begin_, end_;
  const std::vector<int32_t>& own_;
  std::vector<char> wanted_;
  bool foreign_costs_;
};

// Returns a price at which only bytes count; at kFree only time counts.
constexpr double kFree = 0;
double dearest(const TrainingGraph& graph) {
  double bytes = 1;
  for (const ForwardValue& value : graph.values) bytes += static_cast<double>(value.bytes);
  return kMaxPriced / bytes;
}

void find_between(const CutProblem& problem, const RegionChoice& more, const RegionChoice& less, size_t max_choices,
                  std::vector<RegionChoice>& found) {
  if (found.size() >= max_choices || more.bytes <= less.bytes) return;
  const double price = static_cast<double>(less.cost - more.cost) / static_cast<double>(more.bytes - less.bytes);
  const RegionChoice middle = problem.solve(price);
  const double on_line = static_cast<double>(more.cost) + price * static_cast<double>(more.bytes);
  const double here = static_cast<double>(middle.cost) + price * static_cast<double>(middle.bytes);
  if (here > on_line - 1 || middle.bytes >= more.bytes || middle.bytes <= less.bytes) return;
  find_between(problem, more, middle, max_choices, found);
  found.push_back(middle);
  find_between(problem, middle, less, max_choices, found);
}

std::vector<RegionChoice> hull_of(const TrainingGraph& graph, const Region& region, size_t max_choices) {
  std::vector<char> wanted(graph.values.size(), 0);
  for (int32_t v : region.values) wanted[v] = graph.values[v].needed();
  const CutProblem problem(graph, region.begin, region.end, region.values, wanted, /*foreign_costs=*/true);
  RegionChoice all;
  for (int32_t v : region.values) {
    if (!wanted[v]) continue;
    all.kept.push_back(v);
    all.bytes += graph.values[v].bytes;
  }
  std::vector<RegionChoice> found{all};
  const RegionChoice least = problem.solve(dearest(graph));
  if (least.bytes >= all.bytes) return found;
  find_between(problem, all, least, max_choices, found);
  found.push_back(least);
  return found;
}

// Returns everything that the choices of a region depend on, with values numbered from the region's first.
std::vector<int64_t> shape_of(const TrainingGraph& graph, const Region& region) {
  std::vector<int64_t> shape{region.end - region.begin, static_cast<int64_t>(region.values.size())};
  std::map<int32_t, int64_t> number, foreign;
  for (int32_t v : region.values) {
    const ForwardValue& value = graph.values[v];
    number[v] = static_cast<int64_t>(number.size());
    shape.insert(shape.end(), {value.bytes, value.needed(), value.repeatable});
  }
  const auto put = [&](const std::vector<int32_t>& values) {
    shape.push_back(static_cast<int64_t>(values.size()));
    for (int32_t v : values) {
      const auto found = number.find(v);
      if (found != number.end()) {
        shape.push_back(found->second);
      } else {
        // Foreign values are numbered in the order in which they appear, so that repeated values get the same number.
        const int64_t seen = foreign.try_emplace(v, static_cast<int64_t>(foreign.size())).first->second;
        shape.insert(shape.end(), {-2 - seen, graph.values[v].needed() ? 0 : graph.values[v].bytes});
      }
    }
  };
  for (int32_t s = region.begin; s < region.end; ++s) {
    const ForwardOp& step = graph.steps[s];
    shape.insert(shape.end(), {step.cost, step.repeatable});
    put(step.reads);
    put(step.writes);
  }
  return shape;
}

// Returns the choices of one region, translated to another region of the same shape.
std::vector<RegionChoice> moved(const std::vector<RegionChoice>& choices, const Region& from, const Region& to,
                                const TrainingGraph& graph) {
  std::map<int32_t, int32_t> image;
  for (size_t i = 0; i < from.values.size(); ++i) image[from.values[i]] = to.values[i];
  for (int32_t s = 0; s < from.end - from.begin; ++s) {
    const auto& a = graph.steps[from.begin + s].reads;
    const auto& b = graph.steps[to.begin + s].reads;
    for (size_t i = 0; i < a.size(); ++i) image.try_emplace(a[i], b[i]);
  }
  std::vector<RegionChoice> result = choices;
  for (RegionChoice& choice : result) {
    for (int32_t& v : choice.kept) v = image.at(v);
    for (int32_t& v : choice.foreign) v = image.at(v);
  }
  return result;
}

}  // namespace

int32_t count_blocks(const Trace& trace, const TrainingGraph& graph) {
  const std::vector<BlockRun> runs = block_runs(trace, graph);
  return static_cast<int32_t>(std::count_if(runs.begin(), runs.end(), [](const BlockRun& run) { return run.block; }));
}

std::vector<Region> regions_of(const Trace& trace, const TrainingGraph& graph, int32_t blocks) {
  std::vector<Region> regions;
  const auto end = static_cast<int32_t>(graph.steps.size());
  int32_t in_region = 0;  // blocks in the last region; 0: it is not made of blocks
  for (const BlockRun& run : block_runs(trace, graph)) {
    const bool joins = run.block && in_region > 0 && in_region < blocks;
    if (!regions.empty() && joins) {
      ++in_region;
      continue;
    }
    if (!regions.empty()) regions.back().end = run.begin;
    regions.push_back({run.begin, end, run.block, {}});
    in_region = run.block ? 1 : 0;
  }
  std::vector<int32_t> region_of(graph.steps.size());
  for (size_t r = 0; r < regions.size(); ++r)
    std::fill(region_of.begin() + regions[r].begin, region_of.begin() + regions[r].end, static_cast<int32_t>(r));
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const ForwardValue& value = graph.values[v];
    const int32_t home = region_of[value.makers.front()];
    const auto inside = [&](int32_t step) { return region_of[step] == home; };
    if (std::all_of(value.makers.begin(), value.makers.end(), inside) &&
        std::all_of(value.readers.begin(), value.readers.end(), inside))
      regions[home].values.push_back(static_cast<int32_t>(v));
  }
  return regions;
}

std::vector<std::vector<RegionChoice>> choices_of(const TrainingGraph& graph, const std::vector<Region>& regions,
                                                  size_t max_choices) {
  std::vector<std::vector<RegionChoice>> choices;
  std::map<std::vector<int64_t>, size_t> solved;
  for (size_t r = 0; r < regions.size(); ++r) {
    const auto [entry, fresh] = solved.try_emplace(shape_of(graph, regions[r]), r);
    if (fresh)
      choices.push_back(hull_of(graph, regions[r], max_choices));
    else
      choices.push_back(moved(choices[entry->second], regions[entry->second], regions[r], graph));
  }
  return choices;
}

namespace {

// Returns whether a value is live at op `at` under every choice, or is not made before it. It costs nothing there, and
// recomputed ops may read it.
bool is_given(const TrainingGraph& graph, const ForwardValue& value, int32_t at) {
  const auto op_of = [&](int32_t step) { return graph.steps[step].op; };
  if (op_of(value.makers.back()) >= at) return true;
  if (!value.readers.empty() && op_of(value.readers.back()) >= at) return true;
  return std::binary_search(value.uses.begin(), value.uses.end(), at);
}

}  // namespace

int64_t mandatory_live_bytes(const TrainingGraph& graph, int32_t at) {
  int64_t bytes = 0;
  for (const ForwardValue& value : graph.values)
    if (graph.steps[value.makers.front()].op <= at && is_given(graph, value, at)) bytes += value.bytes;
  return bytes;
}

int64_t recompute_cost_lower_bound(const TrainingGraph& graph, int32_t at, int64_t bytes) {
  std::vector<int32_t> own;
  std::vector<char> wanted(graph.values.size(), 0);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const ForwardValue& value = graph.values[v];
    if (is_given(graph, value, at)) continue;
    own.push_back(static_cast<int32_t>(v));
    wanted[v] = value.needed() && value.uses.back() >= at;
  }
  const CutProblem problem(graph, 0, static_cast<int32_t>(graph.steps.size()), own, wanted, /*foreign_costs=*/false);
  RegionChoice more = problem.solve(kFree);
  // Without a price, ties are broken towards recomputation, but keeping everything that is needed costs no time.
  more.bytes = more.cost = 0;
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (wanted[v]) more.bytes += graph.values[v].bytes;
  if (more.bytes <= bytes) return 0;
  RegionChoice less = problem.solve(dearest(graph));
  if (less.bytes >= bytes) return less.cost;
  while (true) {
    const double price = static_cast<double>(less.cost - more.cost) / static_cast<double>(more.bytes - less.bytes);
    const RegionChoice middle = problem.solve(price);
    const double on_line = static_cast<double>(more.cost) + price * static_cast<double>(more.bytes);
    const double here = static_cast<double>(middle.cost) + price * static_cast<double>(middle.bytes);
    if (here > on_line - 1 || middle.bytes >= more.bytes || middle.bytes <= less.bytes)
      return std::max<int64_t>(0, static_cast<int64_t>(std::min(here, on_line) - price * static_cast<double>(bytes)));
    (middle.bytes > bytes ? more : less) = middle;
  }
}

}  // namespace plimsoll
