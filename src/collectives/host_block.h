// Declares the memory that the processes of one host share for their exchange.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace plimsoll {

/// Returns a text that is equal for processes that can share memory: same boot, same process numbers, same /dev/shm.
std::string host_identity();

/// A new zeroed file that processes map. Only this user can open it. It has a name until unlink(), or until the object
/// is destroyed.
class HostBlock {
 public:
  /// Throws UserError (failure) if `folder` has less than `bytes` bytes free.
  explicit HostBlock(int64_t bytes, std::filesystem::path folder = "/dev/shm");
  ~HostBlock() { unlink(); }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void unlink();  ///< removes the name; mapped memory stays

 private:
  std::filesystem::path path_;
};

/// Maps the file of a HostBlock. Throws UserError (failure) if it cannot, or if the file does not have `bytes` bytes.
std::shared_ptr<void> map_block(const std::filesystem::path& path, int64_t bytes);

}  // namespace plimsoll
