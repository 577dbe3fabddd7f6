#include "device/nvrtc.h"

#include <c10/core/DeviceType.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/loaded_library.h"
#include "plimsoll/error.h"

namespace plimsoll {

struct NvrtcProgram;

namespace {

// Declarations of nvrtc.h, because that header is in a package of its own.
using Program = NvrtcProgram*;
using Result = int;
constexpr Result kSuccess = 0, kCompilation = 6, kInvalidOption = 5;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

// Returns the folder next to torch's own: torch's wheels install NVRTC there, in a package of its own.
std::filesystem::path beside_torch() {
  Dl_info library{};
  using IsValid = bool (*)(c10::DeviceType);
  const IsValid function = &c10::isValidDeviceType;
  if (::dladdr(reinterpret_cast<const void*>(function), &library) == 0 || library.dli_fname == nullptr) return {};
  return std::filesystem::path(library.dli_fname).parent_path().parent_path().parent_path() / "nvidia/cu13/lib";
}

std::unique_ptr<LoadedLibrary> load() {
  for (const std::filesystem::path& folder : {beside_torch(), std::filesystem::path()})
    for (const char* name : kNames) {
      auto library = std::make_unique<LoadedLibrary>((folder / name).c_str());
      if (library->loaded()) return library;
    }
  return nullptr;
}

}  // namespace

struct Nvrtc::Functions {
  explicit Functions(const LoadedLibrary& from)
      : version(from.find<Result(int*, int*)>("nvrtcVersion")),
        create(from.find<Result(Program*, const char*, const char*, int, const char* const*, const char* const*)>(
            "nvrtcCreateProgram")),
        destroy(from.find<Result(Program*)>("nvrtcDestroyProgram")),
        compile(from.find<Result(Program, int, const char* const*)>("nvrtcCompileProgram")),
        code_size(from.find<Result(Program, size_t*)>("nvrtcGetCUBINSize")),
        code(from.find<Result(Program, char*)>("nvrtcGetCUBIN")),
        log_size(from.find<Result(Program, size_t*)>("nvrtcGetProgramLogSize")),
        log(from.find<Result(Program, char*)>("nvrtcGetProgramLog")) {}
  bool complete() const { return version && create && destroy && compile && code_size && code && log_size && log; }

  Result (*version)(int*, int*);
  Result (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  Result (*destroy)(Program*);
  Result (*compile)(Program, int, const char* const*);
  Result (*code_size)(Program, size_t*);
  Result (*code)(Program, char*);
  Result (*log_size)(Program, size_t*);
  Result (*log)(Program, char*);

  // Returns the functions; nullptr: there is no library.
  static const Functions* found() {
    static const std::unique_ptr<LoadedLibrary> library = load();
    static const std::unique_ptr<const Functions> functions =
        library ? std::make_unique<const Functions>(*library) : nullptr;
    return functions && functions->complete() ? functions.get() : nullptr;
  }
  static const Functions& required() {
    const Functions* const all = found();
    if (all == nullptr)
      throw UserError(fmt::format("fused ops need NVIDIA's run-time compiler, {}, which is neither in {} nor where the "
                                  "system looks; install the package nvidia-cuda-nvrtc, or set compile: false",
                                  kNames[0], beside_torch().string()),
                      UserError::Kind::failure);
    return *all;
  }
};

Nvrtc::Nvrtc() : functions_(Functions::required()) {
  int major = 0, minor = 0;
  functions_.version(&major, &minor);
  version_ = fmt::format("{}.{}", major, minor);
}

bool has_nvrtc() {
  try {
    const Nvrtc nvrtc;
    return true;
  } catch (const UserError&) {
    return false;
  }
}

std::vector<std::byte> Nvrtc::compile(const std::string& source, int capability) const {
  Program program = nullptr;
  const auto fail = [&](const char* what, Result result) {
    throw InternalError(fmt::format("NVRTC {}: {} (error {})", version_, what, result));
  };
  if (const Result made = functions_.create(&program, source.c_str(), "fused.cu", 0, nullptr, nullptr);
      made != kSuccess)
    fail("a program could not be made", made);
  struct Destroyed {
    const Functions& functions;
    Program program;
    ~Destroyed() { functions.destroy(&program); }
  } const destroyed{functions_, program};
  const std::string architecture = fmt::format("--gpu-architecture=sm_{}", capability);
  const char* const options[] = {architecture.c_str(), "--std=c++17", "--fmad=false"};
  const Result result = functions_.compile(program, 3, options);
  if (result == kInvalidOption)
    throw UserError(fmt::format("NVRTC {} does not know devices of compute capability {}.{}; install a newer "
                                "nvidia-cuda-nvrtc, or set compile: false",
                                version_, capability / 10, capability % 10),
                    UserError::Kind::failure);
  if (result != kSuccess) {
    size_t bytes = 0;
    std::string log;
    if (functions_.log_size(program, &bytes) == kSuccess && bytes > 0) {
      log.resize(bytes);
      functions_.log(program, log.data());
      log.resize(bytes - 1);  // removes the terminating NUL
    }
    fail((result == kCompilation ? "a kernel does not compile: " + log : "compiling failed").c_str(), result);
  }
  size_t bytes = 0;
  if (const Result sized = functions_.code_size(program, &bytes); sized != kSuccess || bytes == 0)
    fail("there is no machine code", sized);
  std::vector<std::byte> code(bytes);
  if (const Result read = functions_.code(program, reinterpret_cast<char*>(code.data())); read != kSuccess)
    fail("the machine code cannot be read", read);
  return code;
}

}  // namespace plimsoll
