// Implements plimsoll --version: this build of the program, and the libtorch that it runs with.
#include <ATen/Version.h>
#include <fmt/format.h>
#include <plimsoll_commit.h>  // written by cmake/Commit.cmake

#include <string>
#include <string_view>

#include "cli/command.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"

namespace plimsoll::cli {
namespace {

// Returns the version that the loaded library states. The headers may be those of another version.
std::string libtorch_version() {
  constexpr std::string_view kBefore = "TORCH_VERSION=";
  const std::string config = at::show_config();
  const size_t begin = config.find(kBefore);
  if (begin == std::string::npos) return "unknown";
  const size_t end = config.find_first_of(", \n", begin);
  return config.substr(begin + kBefore.size(), end - begin - kBefore.size());
}

// A wrong PLIMSOLL_CPU_CAPABILITY is an error of every command, but not of --version.
std::string instructions() {
  try {
    return std::string(own_instructions());
  } catch (const UserError&) {
    return "not known, because PLIMSOLL_CPU_CAPABILITY is wrong";
  }
}

}  // namespace

std::string version_text() {
  std::string text = "plimsoll " PLIMSOLL_VERSION;
  const auto add = [&](std::string_view name, std::string_view value) {
    text += fmt::format("\n{:<14}{}", name, value);
  };
  add("commit", PLIMSOLL_COMMIT);
  add("libtorch", libtorch_version());
  add("CUDA", PLIMSOLL_BUILD_CUDA);
  add("FFmpeg", PLIMSOLL_BUILD_FFMPEG);
  add("compiler", PLIMSOLL_BUILD_COMPILER);
  add("instructions", fmt::format("{} (own kernels), {} (libtorch)", instructions(), at::get_cpu_capability()));
  return text;
}

}  // namespace plimsoll::cli
