// Declares the baseline of a clip's caption without learning: the caption of the most similar known clip.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll {

/// A summary of a clip: frames averaged to cells, and the mean color of all its pixels.
class ClipSummary {
 public:
  static constexpr int64_t kCells = 8;      ///< a frame has at most kCells x kCells cells
  static constexpr int64_t kMaxFrames = 4;  ///< frames of a clip, evenly spaced in time
  using Frame = std::array<uint8_t, kCells * kCells * 3>;

  /// `pictures`: uint8 [frames, size, size, 3], at least one frame and one pixel.
  ClipSummary(const std::vector<uint8_t>& pictures, int64_t frames, int64_t size);

  const std::vector<Frame>& frames() const { return frames_; }
  const std::array<double, 3>& color() const { return color_; }

 private:
  std::vector<Frame> frames_;
  std::array<double, 3> color_{};  // in [0, 255]
};

/// The captions, by number, that two distances give a clip.
struct NearestCaptions {
  size_t by_frame = 0;  ///< caption of the known clip with the frame nearest to one of the clip's frames
  size_t by_color = 0;  ///< caption of the known clip with the nearest mean color
};

/// Shares of the evaluated clips whose nearest known clip has the right caption.
struct NearestClips {
  double by_frame = 0, by_color = 0;
};

/// The known clips, at most 832 bytes each. Distances are Euclidean; of two equally near clips the one added first is
/// chosen.
class NearestClipSearch {
 public:
  /// Returns the clips, evenly spread over `clips`, that are compared: at most 4 096, and at most 1 GiB of pictures of
  /// `clip_bytes` bytes a clip, so that reading them takes seconds. Returns at least one if there is one.
  static std::vector<int64_t> compared(int64_t clips, int64_t clip_bytes);

  /// Returns the held-out clips, evenly spread over `clips`, whose nearest known clip is searched: at most 4 096, about
  /// ten seconds on one core. At least one if there is one.
  static std::vector<int64_t> evaluated(int64_t clips);

  void add(ClipSummary clip, size_t caption);

  /// Returns the nearest captions. Needs at least one added clip.
  NearestCaptions nearest_to(const ClipSummary& clip) const;

 private:
  struct Known {
    ClipSummary clip;
    size_t caption;
  };
  std::vector<Known> known_;
};

}  // namespace plimsoll
