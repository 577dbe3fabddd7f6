// Reads several NumPy arrays in one file (.npz), as numpy.savez and numpy.savez_compressed write them: a zip archive of
// .npy files, stored or deflated (PKWARE's APPNOTE.TXT 6.3).
//
// Bounds: the directory takes at most 4 x its bytes; a stored array its own size; a packed one at most 128 MiB + 16 x
// the archive's size (files/unpack_limit.h). Its announced size is compared with that before it is unpacked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "files/npy.h"

namespace plimsoll {

class NpzFile {
 public:
  /// Reads only the directory. Throws UserError (failure) that names the file: no zip archive, cut short, encrypted,
  /// more than 4 GiB (zip64), packed by a method other than deflate, two arrays of one name.
  explicit NpzFile(const std::filesystem::path& file);

  std::vector<std::string> names() const;  ///< without ".npy", in alphabetical order
  bool has(const std::string& name) const { return entries_.contains(name); }

  /// Unpacks one array and checks its checksum. Throws UserError (failure) that names file and array: as parse_npy()
  /// does, damaged, or more bytes than the packed data can hold.
  NpyArray read(const std::string& name) const;

 private:
  struct Entry {
    uint32_t offset = 0, packed = 0, unpacked = 0, checksum = 0;
    bool deflated = false;
  };

  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace plimsoll
