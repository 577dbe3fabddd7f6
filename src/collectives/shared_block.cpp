#include "collectives/shared_block.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <utility>

#include "base/file_error.h"
#include "collectives/rank_fault.h"
#include "plimsoll/error.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

namespace plimsoll {
namespace {

int64_t buffers_offset(int size) {
  const int64_t head = static_cast<int64_t>(sizeof(BlockHead) + sizeof(RankRecord) * static_cast<size_t>(size));
  const int64_t unit = int64_t{4096} * size;  // whole pages, the same number for every rank
  return (head + unit - 1) / unit * unit;
}

}  // namespace

int64_t SharedBlock::bytes(int size) {
  return buffers_offset(size) + 2 * kExchangeBuffer * size;
}

std::byte* SharedBlock::buffer(int rank, int which) const {
  return block_ + buffers_offset(size_) + (2 * rank + which) * kExchangeBuffer;
}

#ifdef __linux__
void sleep_while(std::atomic<uint32_t>& word, uint32_t value, int milliseconds) {
  const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &limit, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
#else
void sleep_while(std::atomic<uint32_t>& word, uint32_t value, int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (word.load(std::memory_order_acquire) == value && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void wake_all(std::atomic<uint32_t>&) {}
#endif

bool process_is_gone(int pid) {
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = stat.rfind(')');  // the name of a program may have spaces and brackets
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  const char state = stat[name_end + 2];
  return state == 'Z' || state == 'X';
}

namespace {

constexpr int64_t kMebibyte = 1 << 20;

int64_t free_bytes(const std::filesystem::path& folder) {
  struct statvfs room {};
  if (::statvfs(folder.c_str(), &room) != 0) throw_file_error("read", folder, errno, UserError::Kind::failure);
  return static_cast<int64_t>(room.f_bavail) * static_cast<int64_t>(room.f_frsize);
}

[[noreturn]] void refuse_small_folder(const std::filesystem::path& folder, int64_t bytes, int64_t free) {
  throw UserError(fmt::format("{} has {} MiB free, but the exchange between the ranks needs {} MiB; free some, or give "
                              "the container more (docker: --shm-size)",
                              folder.string(), free / kMebibyte, (bytes + kMebibyte - 1) / kMebibyte),
                  UserError::Kind::failure);
}

}  // namespace

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code ignored;
  const std::string processes = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
  struct stat shared {};
  ::stat("/dev/shm", &shared);
  return fmt::format("{} {} {}", boot.empty() ? host_name() : boot, processes, shared.st_dev);
}

HostBlock::HostBlock(int64_t bytes, std::filesystem::path folder) {
  const int64_t free = free_bytes(folder);
  if (free < bytes) refuse_small_folder(folder, bytes, free);
  std::random_device random;
  const auto name = [&] { return fmt::format("plimsoll-{}-{:08x}{:08x}", ::getpid(), random(), random()); };
  int file = -1;
  do {
    path_ = folder / name();
    file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  } while (file < 0 && errno == EEXIST);
  if (file < 0) throw_file_error("write", std::exchange(path_, {}), errno, UserError::Kind::failure);
  // Memory that is reserved now cannot run out during the training; the kernel would answer that with SIGBUS.
  const int result = ::posix_fallocate(file, 0, bytes);
  ::close(file);
  if (result == 0) return;
  unlink();
  if (result == ENOSPC) refuse_small_folder(folder, bytes, free_bytes(folder));
  throw_file_error("write", folder, result, UserError::Kind::failure);
}

void HostBlock::unlink() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

std::shared_ptr<void> map_block(const std::filesystem::path& path, int64_t bytes) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) throw_file_error("read", path, errno, UserError::Kind::failure);
  struct stat about {};
  const bool whole = ::fstat(file, &about) == 0 && about.st_size == bytes;
  const auto size = static_cast<size_t>(bytes);
  void* block = whole ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int error = errno;
  ::close(file);
  if (!whole) throw UserError(fmt::format("{} does not have {} bytes", path.string(), bytes), UserError::Kind::failure);
  if (block == MAP_FAILED) throw_file_error("read", path, error, UserError::Kind::failure);
  return {block, [size](void* at) { ::munmap(at, size); }};
}

}  // namespace plimsoll
