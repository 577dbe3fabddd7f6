// Reads several NumPy arrays in one file (.npz), as numpy.savez and numpy.savez_compressed write them: a zip archive of
// .npy files, stored or deflated (PKWARE's APPNOTE.TXT 6.3).
//
// Bounds: the directory takes at most 4 x its bytes; a stored array its own size; a packed one at most 128 MiB + 16 x
// the archive's size (files/data_memory.h). Its announced size is compared with that before it is unpacked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "files/file_kind.h"
#include "files/npy.h"

namespace plimsoll {

namespace arrays {

inline constexpr FileFact kFacts[] = {
    {".npy", "version", "applied", "1, 2 and 3; others are refused"},
    {".npy", "descr: byte order", "applied", "either; numbers become those of this machine"},
    {".npy", "descr: type", "applied", "bool, int8 to int64, uint8 to uint64, float16, float32, float64"},
    {".npy", "descr: objects, texts, records, dates, complex numbers, long double", "refused",
     "save array.astype('float32'), or each field by itself"},
    {".npy", "fortran_order", "applied", "elements are read in C order"},
    {".npy", "shape", "applied",
     "at most 32 dimensions; the elements must have the bytes of the file's rest, no fewer and no more"},
    {".npy", "other keys of the header", "refused", "NumPy writes none"},
    {".npz", "vectors (or x, X), labels (or y), lengths", "applied",
     "arrays of series; two names of one array are refused"},
    {".npz", "other arrays", "ignored", "a note names them"},
    {".npz", "files that are no arrays, names that come twice", "refused", "save an archive with numpy.savez"},
    {".npz", "method", "applied", "stored and deflated; others are refused"},
    {".npz", "checksum, sizes", "applied", "other bytes are refused as damage"},
    {".npz", "encryption, zip64 (more than 4 GiB)", "refused", "save the arrays as .npy files"},
    {".npz", "time, comment, extra fields", "ignored", "they say nothing of the arrays"},
};
static_assert(are_complete(kFacts));

}  // namespace arrays

class NpzFile {
 public:
  /// Reads only the directory. Throws UserError that names the file: no zip archive, cut short, encrypted,
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
