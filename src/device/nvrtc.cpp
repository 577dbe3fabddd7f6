#include "device/nvrtc.h"

#include <c10/core/DeviceType.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/process.h"
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
  const auto fail = [&](const std::string& what, Result result) {
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
    fail(result == kCompilation ? "a kernel does not compile: " + log : "compiling failed", result);
  }
  size_t bytes = 0;
  if (const Result sized = functions_.code_size(program, &bytes); sized != kSuccess || bytes == 0)
    fail("there is no machine code", sized);
  std::vector<std::byte> code(bytes);
  if (const Result read = functions_.code(program, reinterpret_cast<char*>(code.data())); read != kSuccess)
    fail("the machine code cannot be read", read);
  return code;
}

namespace {

// Header before the code. The key is long, so it is stored as two hashes and its length.
struct Header {
  char magic[16] = "plimsoll code 1";
  uint64_t key_hash = 0;
  uint64_t key_check = 0;
  uint64_t key_bytes = 0;
  uint64_t code_bytes = 0;
  uint64_t code_hash = 0;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 56);

constexpr uint64_t kMaxCodeBytes = 64 << 20;

uint64_t hash_of(std::string_view text) {
  return content_hash(std::as_bytes(std::span(text)));
}

Header header_of(std::string_view key, const std::vector<std::byte>& code) {
  Header header;
  header.key_hash = hash_of(key);
  header.key_check = hash_of(std::string(key) + "\n");
  header.key_bytes = key.size();
  header.code_bytes = code.size();
  header.code_hash = content_hash(code);
  return header;
}

struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

/// Returns true if only this user, or root, can change the open file: its code runs with this user's rights.
bool is_private(const Descriptor& open, mode_t kind) {
  struct stat status {};
  return open.value >= 0 && ::fstat(open.value, &status) == 0 && (status.st_mode & S_IFMT) == kind &&
         (status.st_uid == ::geteuid() || status.st_uid == 0) && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Removes the right to write from the group and others; returns false if the system refuses.
bool without_others(const Descriptor& open) {
  struct stat status {};
  if (::fstat(open.value, &status) != 0) return false;
  const mode_t others = S_IWGRP | S_IWOTH;
  return (status.st_mode & others) == 0 || ::fchmod(open.value, status.st_mode & 07777 & ~others) == 0;
}

bool read_all(const Descriptor& file, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::read(file.value, to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<size_t>(got));
  }
  return true;
}

}  // namespace

std::filesystem::path CompiledCache::file_of(std::string_view key) const {
  return folder_ / fmt::format("{:016x}.cubin", hash_of(key));
}

std::optional<std::vector<std::byte>> CompiledCache::find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  // The file is opened in the checked folder, even if another folder gets its name in between.
  const Descriptor folder{::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!is_private(folder, S_IFDIR)) return std::nullopt;
  const Descriptor file{
      ::openat(folder.value, file_of(key).filename().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  if (!is_private(file, S_IFREG)) return std::nullopt;
  struct stat status {};
  if (::fstat(file.value, &status) != 0) return std::nullopt;
  const auto size = static_cast<int64_t>(status.st_size);
  Header header;
  if (size < static_cast<int64_t>(sizeof header) || !read_all(file, std::as_writable_bytes(std::span(&header, 1))))
    return std::nullopt;
  // The header's size is untrusted: it must match the size of the file.
  if (header.code_bytes > kMaxCodeBytes || header.code_bytes != static_cast<uint64_t>(size) - sizeof header)
    return std::nullopt;
  std::vector<std::byte> code(header.code_bytes);
  if (!read_all(file, code)) return std::nullopt;
  const Header expected = header_of(key, code);
  if (std::memcmp(&header, &expected, sizeof header) != 0) return std::nullopt;
  return code;
}

void CompiledCache::keep(std::string_view key, const std::vector<std::byte>& code) const {
  if (folder_.empty()) return;
  try {
    std::filesystem::create_directories(folder_);
    // Under a umask of 002 the group could write the folder and its files.
    const Descriptor folder{::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (folder.value < 0 || !without_others(folder) || !is_private(folder, S_IFDIR)) return;
    AtomicFile file(file_of(key));
    const Header header = header_of(key, code);
    file.write(std::as_bytes(std::span(&header, 1)));
    file.write(code);
    file.commit();
    const Descriptor kept{::open(file_of(key).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    if (kept.value >= 0) without_others(kept);
  } catch (const UserError&) {
  } catch (const std::filesystem::filesystem_error&) {
  }
}

}  // namespace plimsoll
