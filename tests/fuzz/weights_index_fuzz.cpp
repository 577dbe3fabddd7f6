// An index of weights in several files, with two of them. No file outside its folder is opened.
#include "fuzz.h"
#include "weights/source.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 3);
  fuzz::write("model/model.safetensors.index.json", part[0]);
  fuzz::write("model/a.safetensors", part[1]);
  fuzz::write("model/b.safetensors", part[2]);
  static const bool once = [] {
    fuzz::decoy("a.safetensors", "secret");
    fuzz::decoy("model/other.safetensors", "secret");
    return true;
  }();
  fuzz::require(once, "no decoys");
  fuzz::reads(input,
              [&] {
                weights::notes_on_unread_weights(fuzz::folder() / "model");
                const auto source = weights::open_source(fuzz::folder() / "model");
                for (const auto& [name, tensor] : source->tensors()) {
                  std::vector<std::byte> buffer;
                  const std::span<const std::byte> rows =
                      source->rows(name, 0, tensor.sizes.empty() ? 1 : tensor.sizes[0], buffer);
                  fuzz::touch(rows.data(), rows.size());
                  source->require_whole(name);
                }
              },
              {.names = false});
  return 0;
}
