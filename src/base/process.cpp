#include "base/process.h"

#include <fstream>
#include <sstream>
#include <string>

#ifdef __GLIBC__  // which <fstream> has defined
#include <malloc.h>
#endif

namespace plimsoll {

std::optional<int64_t> process_start_of(int64_t pid) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  // The name in brackets may contain any character, brackets too: fields are counted after the last bracket.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(end + 1));
  std::string state, skipped;
  rest >> state;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  int64_t start = 0;
  if (!(rest >> start) || state == "Z" || state == "X") return std::nullopt;
  return start;
}

void release_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace plimsoll
