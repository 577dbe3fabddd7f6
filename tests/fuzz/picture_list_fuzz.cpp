// A list of pictures and masks as a table and as JSON lines, with the names of a mask's numbers.
#include "data/masks/picture_list.h"
#include "fuzz.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 2);
  fuzz::decoy("a.png", "no picture");
  DataConfig config;
  config.slices.structures = {"*"};
  for (const bool named : {false, true}) {
    if (named) config.slices.label_names = fuzz::write("names.txt", part[1]);
    for (const char* name : {"list.csv", "list.jsonl"}) {
      config.pictures.list = fuzz::write(name, part[0]);
      fuzz::reads(input, [&] {
        for (const PictureTask& task : picture_tasks(config))
          fuzz::require(!task.image.empty() && !task.mask.empty() &&
                            (task.value || !task.structure.empty() || !task.prompt.empty()),
                        "a task that asks for nothing");
      });
    }
  }
  return 0;
}
