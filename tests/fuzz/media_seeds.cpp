// Writes the inputs of the media target that an encoder has to make: media_seeds FOLDER (build target of that name).
#include <cstdio>

#include "../files/encoded_video.h"

int main(int count, char** arguments) {
  if (count != 2) return std::fputs("media_seeds: name the folder of the inputs\n", stderr), 2;
  const std::filesystem::path folder = arguments[1];
  const auto named = [&](const char* name) { return folder / (std::string("seed-") + name); };
  for (const char* ending : {"mp4", "mkv", "avi", "mov", "mpg"}) {
    const std::filesystem::path file = named(ending), made = file.string() + "." + ending;
    plimsoll::encode_video(made, {0, 80, 160, 240, 120, 60});
    std::filesystem::rename(made, file);
  }
  for (const char* ending : {"m4a", "aac"}) {
    const std::filesystem::path file = named(ending), made = file.string() + "." + ending;
    plimsoll::encode_sound(made, 0.25);
    std::filesystem::rename(made, file);
  }
}
