#include "data/clips/clip_baselines.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "data/evenly_spread.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxCompared = 4096, kMaxEvaluated = 4096;
constexpr int64_t kMaxReadBytes = GiB;

// Computes means over the cells of a picture of size x size pixels. If a picture has fewer pixels than cells, some
// cells are the same pixel.
ClipSummary::Frame cells_of(const uint8_t* picture, int64_t size) {
  constexpr int64_t kCells = ClipSummary::kCells;
  ClipSummary::Frame cells{};
  for (int64_t row = 0; row < kCells; ++row)
    for (int64_t column = 0; column < kCells; ++column) {
      const int64_t top = row * size / kCells, bottom = std::max(top + 1, (row + 1) * size / kCells);
      const int64_t left = column * size / kCells, right = std::max(left + 1, (column + 1) * size / kCells);
      std::array<int64_t, 3> sums{};
      for (int64_t y = top; y < bottom; ++y)
        for (int64_t x = left; x < right; ++x)
          for (size_t c = 0; c < 3; ++c) sums[c] += picture[(y * size + x) * 3 + static_cast<int64_t>(c)];
      const int64_t pixels = (bottom - top) * (right - left);
      for (size_t c = 0; c < 3; ++c)
        cells[static_cast<size_t>(row * kCells + column) * 3 + c] =
            static_cast<uint8_t>((sums[c] + pixels / 2) / pixels);
    }
  return cells;
}

int64_t squared_distance(const ClipSummary::Frame& one, const ClipSummary::Frame& other) {
  int32_t sum = 0;  // at most 192 x 255^2
  for (size_t i = 0; i < one.size(); ++i) {
    const int32_t difference = one[i] - other[i];
    sum += difference * difference;
  }
  return sum;
}

double squared_distance(const std::array<double, 3>& one, const std::array<double, 3>& other) {
  double sum = 0;
  for (size_t c = 0; c < one.size(); ++c) sum += (one[c] - other[c]) * (one[c] - other[c]);
  return sum;
}

}  // namespace

ClipSummary::ClipSummary(const std::vector<uint8_t>& pictures, int64_t frames, int64_t size) {
  check(frames > 0 && size > 0 && std::ssize(pictures) == frames * size * size * 3, "pictures of the clip's shape");
  const int64_t taken = std::min(frames, kMaxFrames);
  for (int64_t i = 0; i < taken; ++i)
    frames_.push_back(cells_of(pictures.data() + (i * frames / taken) * size * size * 3, size));
  std::array<int64_t, 3> sums{};
  for (size_t i = 0; i < pictures.size(); ++i) sums[i % 3] += pictures[i];
  for (size_t c = 0; c < 3; ++c) color_[c] = static_cast<double>(sums[c]) / static_cast<double>(frames * size * size);
}

std::vector<int64_t> NearestClipSearch::compared(int64_t clips, int64_t clip_bytes) {
  return evenly_spread(clips, std::min(kMaxCompared, kMaxReadBytes / clip_bytes));
}

std::vector<int64_t> NearestClipSearch::evaluated(int64_t clips) {
  return evenly_spread(clips, kMaxEvaluated);
}

void NearestClipSearch::add(ClipSummary clip, size_t caption) {
  known_.push_back({std::move(clip), caption});
}

NearestCaptions NearestClipSearch::nearest_to(const ClipSummary& clip) const {
  check(!known_.empty(), "there are known clips");
  NearestCaptions nearest;
  int64_t nearest_frame = std::numeric_limits<int64_t>::max();
  double nearest_color = std::numeric_limits<double>::infinity();
  for (const Known& known : known_) {
    for (const ClipSummary::Frame& its : known.clip.frames())
      for (const ClipSummary::Frame& own : clip.frames())
        if (const int64_t distance = squared_distance(its, own); distance < nearest_frame) {
          nearest_frame = distance;
          nearest.by_frame = known.caption;
        }
    if (const double distance = squared_distance(known.clip.color(), clip.color()); distance < nearest_color) {
      nearest_color = distance;
      nearest.by_color = known.caption;
    }
  }
  return nearest;
}

}  // namespace plimsoll
