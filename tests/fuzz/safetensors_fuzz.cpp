// A safetensors file: header, checksums, tensors.
#include "fuzz.h"
#include "safetensors/safetensors.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path file = fuzz::write("input.safetensors", input);
  fuzz::reads(input, [&] {
    const SafetensorsFile opened = SafetensorsFile::open(file);
    for (const auto& [name, tensor] : opened.tensors()) fuzz::touch(tensor.bytes.data(), tensor.bytes.size());
    opened.verify();
    opened.require_whole();
  });
  // A file that was read can be written, and read again.
  if (size < 8) return 0;
  fuzz::reads(input, [&] {
    const int64_t data_bytes = 64;
    const SafetensorsHeader header = parse_safetensors_header(input.substr(8), data_bytes, "input");
    const std::string written = format_safetensors_header(header, "input");
    const SafetensorsHeader again =
        parse_safetensors_header(std::string_view(written).substr(8), data_bytes, "written");
    fuzz::require(again.metadata == header.metadata && again.tensors.size() == header.tensors.size(),
                  "a header that was written is not the one that was read");
  });
  return 0;
}
