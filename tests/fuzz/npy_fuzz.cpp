// A NumPy array.
#include "files/npy.h"

#include "fuzz.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path file = fuzz::write("input.npy", input);
  fuzz::reads(input, [&] {
    const NpyArray array = read_npy(file);
    fuzz::require(array.bytes.size() <= size, "an array with more bytes than its file");
    fuzz::require(static_cast<int64_t>(array.floats().size()) == array.count(), "an array of other numbers");
    for (int64_t i = 0; i < array.count(); ++i) array.at(i);
    array.describe_sizes();
  });
  return 0;
}
