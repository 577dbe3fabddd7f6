// A GGUF file: metadata, tensors, the architecture and the rows of its weights.
#include "files/gguf.h"

#include "fuzz.h"
#include "weights/families.h"
#include "weights/gguf_source.h"
#include "weights/source.h"
#include "weights/tensor_names.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path path = fuzz::write("input.gguf", input);
  const bool opened = fuzz::reads(input, [&] {
    const GgufFile file = GgufFile::open(path);
    for (const auto& [name, tensor] : file.tensors()) fuzz::touch(tensor.bytes.data(), tensor.bytes.size());
  });
  if (!opened) return 0;
  for (const char* key :
       {"general.architecture", "llama.block_count", "llama.rope.freq_base", "tokenizer.ggml.tokens"}) {
    const GgufFile file = GgufFile::open(path);
    fuzz::reads(input, [&] { file.text(key); });
    fuzz::reads(input, [&] { file.integer(key); });
    fuzz::reads(input, [&] { file.number(key); });
    fuzz::reads(input, [&] {
      for (const std::string_view each : file.texts(key).value_or(std::vector<std::string_view>()))
        fuzz::touch(each.data(), each.size());
    });
  }
  fuzz::reads(input, [&] { weights::layout_of("gguf", weights::read_gguf_architecture(path).config); });
  fuzz::reads(input, [&] {
    const auto source = weights::open_source(path);
    for (const auto& [name, tensor] : source->tensors()) {
      std::vector<std::byte> buffer;
      const std::span<const std::byte> rows = source->rows(name, 0, tensor.sizes.empty() ? 1 : tensor.sizes[0], buffer);
      fuzz::touch(rows.data(), rows.size());
      source->require_whole(name);
      source->release_pages(name);
    }
  });
  return 0;
}
