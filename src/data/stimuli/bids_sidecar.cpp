#include "data/stimuli/bids_sidecar.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxSidecarBytes = 16 * MiB;
constexpr double kSidecarTolerance = 1e-3;  // headers have times in float32, rounded to milliseconds

}  // namespace

std::string sidecar_question(const std::filesystem::path& series, double seconds) {
  std::filesystem::path sidecar = series;
  if (sidecar.extension() == ".gz") sidecar.replace_extension();
  if (sidecar.extension() != ".nii") return "";
  sidecar.replace_extension(".json");
  std::error_code error;
  if (!std::filesystem::is_regular_file(sidecar, error)) return "";
  const nlohmann::json json = read_python_json_file(sidecar, kMaxSidecarBytes);
  if (json.contains("VolumeTiming"))
    return fmt::format(
        "{} has VolumeTiming, times of single volumes; volumes are equally far apart here: set "
        "data.repetition_time if they are",
        sidecar.string());
  const auto time = json.find("RepetitionTime");
  if (time == json.end() || !time->is_number()) return "";
  const double stated = time->get<double>();
  if (std::abs(stated - seconds) <= kSidecarTolerance * seconds) return "";
  return fmt::format(
      "{:.6g} seconds from volume to volume, and RepetitionTime in {} is {:.6g}; set "
      "data.repetition_time to the right one",
      seconds, sidecar.string(), stated);
}

}  // namespace plimsoll
