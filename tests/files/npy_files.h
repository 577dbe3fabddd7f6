// Declares NumPy files for tests, written byte by byte.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

inline std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

/// Returns a file of this header and data.
inline std::string npy_of_header(const std::string& header, const std::string& data, int version = 1) {
  const std::string padded = header + "\n";
  return "\x93NUMPY" + little_endian(static_cast<uint64_t>(version), 1) + std::string(1, '\0') +
         little_endian(padded.size(), version == 1 ? 2 : 4) + padded + data;
}

inline std::string npy_header(const std::string& type, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
}

template <typename Number>
std::string npy(const std::string& type, const std::string& shape, const std::vector<Number>& numbers) {
  return npy_of_header(npy_header(type, shape),
                       std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)));
}

/// Returns a zip archive of these files, deflated or stored.
inline std::string zip(const std::vector<std::pair<std::string, std::string>>& files, bool deflated) {
  std::string archive, directory;
  for (const auto& [name, bytes] : files) {
    std::string packed = bytes;
    if (deflated) {
      z_stream stream = {};
      deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      packed.resize(deflateBound(&stream, bytes.size()));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(bytes.size());
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream, Z_FINISH);
      packed.resize(stream.total_out);
      deflateEnd(&stream);
    }
    const uint64_t checksum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    const std::string common = little_endian(20, 2) + little_endian(0, 2) + little_endian(deflated ? 8 : 0, 2) +
                               little_endian(0, 4) + little_endian(checksum, 4) + little_endian(packed.size(), 4) +
                               little_endian(bytes.size(), 4) + little_endian(name.size(), 2);
    directory +=
        "PK\1\2" + little_endian(20, 2) + common + little_endian(0, 12) + little_endian(archive.size(), 4) + name;
    archive += "PK\3\4" + common + little_endian(0, 2) + name + packed;
  }
  return archive + directory + "PK\5\6" + little_endian(0, 4) + little_endian(files.size(), 2) +
         little_endian(files.size(), 2) + little_endian(directory.size(), 4) + little_endian(archive.size(), 4) +
         little_endian(0, 2);
}

}  // namespace plimsoll
