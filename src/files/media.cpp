#include "files/media.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>

#include "base/file_error.h"
#include "base/hash.h"
#include "files/data_memory.h"
#include "files/ffmpeg_functions.h"
#include "files/file_kind.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr const char* kLibrary = "libplimsoll_media.so.0";

// Returns the path next to the library that contains this function, and the name for the system's search path.
std::vector<std::string> default_places() {
  std::vector<std::string> places;
  Dl_info self{};
  if (::dladdr(reinterpret_cast<void*>(&describe_video), &self) != 0 && self.dli_fname != nullptr)
    places.push_back((std::filesystem::path(self.dli_fname).parent_path() / kLibrary).string());
  places.emplace_back(kLibrary);
  return places;
}

// Loads the library, which stays loaded because FFmpeg keeps state of its own.
const media::Functions& load(const std::vector<std::string>& candidates) {
  std::string reasons;
  for (const std::string& candidate : candidates) {
    std::string reason = "it is of another build of Plimsoll";
    if (void* library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      const auto of = reinterpret_cast<media::FunctionsOf>(::dlsym(library, media::kSymbol));
      const media::Functions* functions = of == nullptr ? nullptr : of(media::kVersion);
      if (functions != nullptr) return *functions;
    } else if (const char* message = ::dlerror()) {
      reason = message;
    }
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  throw UserError(
      fmt::format("pictures, videos and sound are read with the libraries of FFmpeg {}, which cannot be loaded ({}); "
                  "install the Debian packages {} or, where the system has another FFmpeg, set LD_LIBRARY_PATH to a "
                  "folder with libraries of these major versions; keep {} in the folder of libplimsoll",
                  PLIMSOLL_FFMPEG_MAJOR, reasons, PLIMSOLL_FFMPEG_PACKAGES, kLibrary),
      UserError::Kind::failure);
}

const media::Functions& functions() {
  static const media::Functions& all = load(default_places());  // tried again after an exception
  return all;
}

void check_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw FileError(fmt::format("{} does not exist", path.string()));
  if (!std::filesystem::is_regular_file(status))
    throw FileError(fmt::format("{} is not a regular file", path.string()));
  if (::access(path.c_str(), R_OK) != 0) throw_file_error("read", path, errno);
}

void refuse_failed(const std::filesystem::path& path, const std::string& matter) {
  if (!matter.empty()) throw UserError(fmt::format("{} {}", path.string(), matter), UserError::Kind::failure);
}

}  // namespace

void load_media_library(const std::vector<std::string>& candidates) {
  load(candidates);
}

VideoInfo describe_video(const std::filesystem::path& path) {
  check_file(path);
  VideoInfo info;
  refuse_failed(path, functions().describe(path.string(), info));
  for (const std::string& note : info.notes) note_data(path, note);
  return info;
}

std::vector<double> evenly_spaced(double start, double end, int64_t count) {
  check(count >= 0 && start <= end, "times of a clip that ends before it starts");
  std::vector<double> seconds(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    seconds[static_cast<size_t>(i)] =
        start + (end - start) * (static_cast<double>(i) + 0.5) / static_cast<double>(count);
  return seconds;
}

std::vector<uint8_t> read_frames(const std::filesystem::path& path, const std::vector<double>& seconds, int64_t width,
                                 int64_t height) {
  check(std::is_sorted(seconds.begin(), seconds.end()), "times of pictures that do not ascend");
  check(seconds.empty() || (std::isfinite(seconds.back()) && seconds.front() >= 0), "a picture at no time of a video");
  const auto count = static_cast<int64_t>(seconds.size());
  // In this order, so that the product has only bounded factors.
  if (width < 1 || height < 1 || width > kMaxPictureSide || height > kMaxPictureSide || count > kMaxPictures ||
      count * width * height * 3 > kMaxPictureBytes)
    refuse_failed(
        path,
        fmt::format("is to be read as {} pictures of {} x {}; at most {} of {} x {} and {} bytes are read at once",
                    count, width, height, kMaxPictures, kMaxPictureSide, kMaxPictureSide, kMaxPictureBytes));
  check_file(path);
  require_data_memory(path.string(), fmt::format("is read as {} pictures of {} x {}", count, width, height),
                      static_cast<double>(count * width * height * 3));
  std::vector<uint8_t> pixels(static_cast<size_t>(count * width * height * 3));
  refuse_failed(path, functions().frames(path.string(), seconds, width, height, pixels));
  return pixels;
}

std::vector<float> read_audio(const std::filesystem::path& path, int64_t sample_rate) {
  if (sample_rate < 1 || sample_rate > kMaxSampleRate)
    refuse_failed(
        path, fmt::format("is to be read at {} samples a second; 1 to {} are possible", sample_rate, kMaxSampleRate));
  check_file(path);
  std::vector<float> samples;
  refuse_failed(path, functions().audio(path.string(), sample_rate, samples));
  return samples;
}

Picture decode_picture(const std::filesystem::path& path, const std::vector<uint8_t>& bytes, bool png) {
  Picture picture;
  refuse_failed(path, functions().picture(bytes, png, picture));
  return picture;
}

std::unique_ptr<FourierTransform> make_fourier_transform(int64_t size) {
  check(size >= 1 && std::has_single_bit(static_cast<uint64_t>(size)), "a Fourier transform of no power of two");
  std::unique_ptr<FourierTransform> transform;
  refuse_failed(fmt::format("a Fourier transform of {} values", size), functions().fourier(size, transform));
  return transform;
}

VideoFile VideoFile::look_at(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw FileError(fmt::format("{} does not exist", path.string()));
  if (!std::filesystem::is_regular_file(status))
    throw FileError(fmt::format("{} is not a regular file", path.string()));
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw_file_error("read", path, error.value());
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) throw_file_error("read", path, error.value());
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  if (error) throw_file_error("read", path, error.value());
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch());
  return {canonical, static_cast<int64_t>(bytes), static_cast<int64_t>(since.count())};
}

uint64_t media_cache_key(const VideoFile& file, std::string_view contents) {
  // The path comes last, because only it may have colons.
  return mix64(hash_bytes(fmt::format("{}:{}:{}:{}", contents, file.bytes, file.changed_at, file.path.string())));
}

std::string display_key(const VideoInfo& info) {
  const std::string seen = info.orientation == kUpright ? "" : fmt::format(":seen{}", info.orientation);
  return seen + (info.alpha ? ":white" : "");
}

std::filesystem::path media_cache_path(const std::filesystem::path& folder, const VideoFile& file, uint64_t key,
                                       std::string_view extension) {
  constexpr size_t longest = 100;  // with the key, within the limit of file systems
  return folder / fmt::format("{}-{:016x}.{}", file.path.stem().string().substr(0, longest), key, extension);
}

}  // namespace plimsoll
