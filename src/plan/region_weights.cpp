#include "plan/region_weights.h"

#include <algorithm>

namespace plimsoll {
namespace {

class CutWeigher {
 public:
  CutWeigher(const std::vector<TrainingGraph>& graphs, const std::vector<ChoiceBytes>& bytes, RegionCut& cut)
      : graphs_(graphs), bytes_(bytes), cut_(cut) {
    for (size_t g = 0; g < graphs.size(); ++g) find_base(g);
  }

  void run() {
    cut_.weighed.resize(cut_.regions.size());
    for (size_t r = 0; r < cut_.regions.size(); ++r)
      for (const RegionChoice& choice : cut_.choices[r]) cut_.weighed[r].push_back(weigh(r, choice));
  }

 private:
  // What lies there besides the regions' own values: by op of the segment, and in the gap before it. And which region
  // each op belongs to: in backward, the last one that is not done yet.
  void find_base(size_t g) {
    const TrainingGraph& graph = graphs_[g];
    std::vector<char> shared(graph.values.size(), 1);
    for (const Region& region : cut_.regions)
      for (int32_t v : region.values) shared[v] = 0;
    const auto line = bytes_[g].timeline(keep_all(graph), shared);
    Base& base = bases_.emplace_back();
    for (const auto& tick : line.ticks) {
      base.at.push_back(tick.bytes + bytes_[g].fixed_at(tick.op));
      // Values that others share are counted as if the op's own were there already: too much at most.
      base.before.push_back(tick.bytes + bytes_[g].fixed_before(tick.op));
    }
    const int32_t begin = graph.segment.begin;
    base.region.assign(graph.segment.end - begin, 0);
    for (size_t r = 0; r < cut_.regions.size(); ++r)
      for (int32_t s = cut_.regions[r].begin; s < cut_.regions[r].end; ++s)
        base.region[graph.steps[s].op - begin] = static_cast<int32_t>(r);
    int32_t active = -1;
    std::vector<int32_t> last_use(cut_.regions.size(), -1);
    for (size_t r = 0; r < cut_.regions.size(); ++r)
      for (int32_t v : cut_.regions[r].values)
        if (graph.values[v].needed()) last_use[r] = std::max(last_use[r], graph.values[v].uses.back());
    for (int32_t op = graph.segment.end; op-- > graph.first_backward;) {
      for (size_t r = 0; r < last_use.size(); ++r)
        if (last_use[r] >= op) active = std::max(active, static_cast<int32_t>(r));
      base.region[op - begin] = active;
    }
  }

  RegionCut::Weighed weigh(size_t r, const RegionChoice& choice) const {
    RegionCut::Weighed result{&choice};
    for (size_t g = 0; g < graphs_.size(); ++g) {
      const TrainingGraph& graph = graphs_[g];
      KeptValues kept = keep_all(graph);
      std::vector<char> chosen(graph.values.size(), 0);
      for (int32_t v : cut_.regions[r].values) {
        kept[v] = 0;
        chosen[v] = 1;
      }
      for (int32_t v : choice.kept) kept[v] = 1;
      for (int32_t v : choice.foreign) kept[v] = 1;
      const auto line = bytes_[g].timeline(kept, chosen);
      const int32_t begin = graph.segment.begin;
      for (const auto& tick : line.ticks) {
        const int32_t at = tick.op - begin;
        if (bases_[g].region[at] != static_cast<int32_t>(r)) continue;
        result.peak = std::max(result.peak, tick.bytes + (tick.step < 0 ? bases_[g].at[at] : bases_[g].before[at]));
      }
      if (g == 0) result.cost = line.cost;  // as answers count it
      int64_t held = 0;
      for (int32_t v : choice.kept) held += graph.values[v].bytes;
      for (int32_t v : choice.foreign) held += graph.values[v].bytes;
      result.held = std::max(result.held, held);
    }
    return result;
  }

  struct Base {
    std::vector<int64_t> at, before;  // by op of the segment
    std::vector<int32_t> region;      // -1: of none
  };
  const std::vector<TrainingGraph>& graphs_;
  const std::vector<ChoiceBytes>& bytes_;
  RegionCut& cut_;
  std::vector<Base> bases_;
};

}  // namespace

void weigh_regions(const std::vector<TrainingGraph>& graphs, const std::vector<ChoiceBytes>& bytes, RegionCut& cut) {
  CutWeigher(graphs, bytes, cut).run();
}

}  // namespace plimsoll
