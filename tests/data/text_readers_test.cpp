// Readers of lines of text: each skips a byte order mark and refuses files of other kinds, as files/text_file.h does.
#include <gmock/gmock.h>
#include <zlib.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "data/clips/clip_list.h"
#include "data/masks/label_names.h"
#include "data/masks/picture_list.h"
#include "data/series/fmri_series.h"
#include "data/series/series_file.h"
#include "data/series/stimulus_labels.h"
#include "files/ts_file.h"
#include "plimsoll/job.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

struct TextReader {
  const char* file;
  const char* text;
  /// Returns what the reader makes of the file.
  std::function<std::string(const std::filesystem::path&)> read;
};

std::string joined(const TsFile& file) {
  std::string text;
  for (const std::string& name : file.classes) text += name + " ";
  for (const TsSeries& series : file.series)
    for (const float value : series.values) text += std::to_string(value) + " ";
  return text;
}

std::string tasks_of(const std::filesystem::path& file) {
  DataConfig config;
  config.pictures.list = file;
  std::string text;
  for (const PictureTask& task : picture_tasks(config))
    text += task.image.filename().string() + task.mask.filename().string() + task.structure;
  return text;
}

const TextReader kReaders[] = {
    {"names.txt", "1 lump\n2 bump\n",
     [](const auto& file) {
       std::string text;
       for (const LabelName& each : read_label_names(file)) text += std::to_string(each.number) + each.name;
       return text;
     }},
    {"labels.txt", "face 0\nface 0\nhouse 1\n",
     [](const auto& file) {
       std::string text;
       const StimulusLabels labels = read_stimulus_labels(file);
       for (const int64_t label : labels.label) text += labels.names[static_cast<size_t>(label)] + " ";
       return text;
     }},
    {"clips.tsv", "a.mp4\ta dog\nb.mp4\ta cat\n",
     [](const auto& file) {
       std::string text;
       for (const CaptionedVideo& each : read_clip_list(file)) text += each.file.filename().string() + each.caption;
       return text;
     }},
    {"series.ts", "@dimensions 1\n@classLabel true a b\n@data\n1,2:a\n3,4:b\n",
     [](const auto& file) {
       return joined(read_ts_file(file, [](const std::string& what) { throw UserError(what); }));
     }},
    {"series.csv", "series,label,x\n1,a,1\n1,a,2\n2,b,3\n",
     [](const auto& file) {
       return joined(read_series_table(file, [](const std::string& what) { throw UserError(what); }));
     }},
    {"fmri.csv", "1.5,2.5\n3.5,4.5\n",
     [](const auto& file) {
       std::string text;
       for (const float value : read_fmri(file, {}).values) text += std::to_string(value) + " ";
       return text;
     }},
    {"pictures.csv", "image,mask,structure\na.png,b.png,lump\n", tasks_of},
    {"pictures.jsonl", "{\"image\": \"a.png\", \"mask\": \"b.png\", \"structure\": \"lump\"}\n", tasks_of},
    {"config.json", "{\"hidden_size\": 32}", [](const auto& file) { return read_json_file(file, 1 << 20).dump(); }},
    {"config.json", "{\"theta\": Infinity}",
     [](const auto& file) { return read_python_json_file(file, 1 << 20).dump(); }},
    {"job.yaml", "max_steps: 7\nmodel: {hidden_size: 32}\ndata: {files: [a.txt]}\nmemory_budget: 1GiB\n",
     [](const auto& file) { return std::to_string(*read_job(file, {}).max_steps); }},
};

TEST(TextReaders, SkipAByteOrderMark) {
  const TempFolder folder;
  for (const TextReader& reader : kReaders) {
    const std::string plain = reader.read(put_file(folder / reader.file, reader.text));
    EXPECT_FALSE(plain.empty()) << reader.file;
    EXPECT_EQ(reader.read(put_file(folder / reader.file, "\xEF\xBB\xBF" + std::string(reader.text))), plain)
        << reader.file;
  }
}

TEST(TextReaders, RefusePackedFiles) {
  const TempFolder folder;
  for (const TextReader& reader : kReaders) {
    gzFile packed = gzopen((folder / reader.file).c_str(), "wb");
    gzputs(packed, reader.text);
    gzclose(packed);
    EXPECT_THAT(user_error_of([&] { reader.read(folder / reader.file); }),
                AllOf(HasSubstr(reader.file), AnyOf(HasSubstr("gzip"), HasSubstr("is not valid JSON"))));
  }
}

// Only a job may be in UTF-16.
TEST(TextReaders, RefuseUtf16) {
  const TempFolder folder;
  for (const TextReader& reader : kReaders) {
    std::string wide = "\xff\xfe";
    for (const char* c = reader.text; *c != '\0'; ++c) (wide += *c) += '\0';
    const auto file = put_file(folder / reader.file, wide);
    if (std::string_view(reader.file) == "job.yaml") {
      EXPECT_EQ(reader.read(file), "7");
      continue;
    }
    EXPECT_THAT(user_error_of([&] { reader.read(file); }),
                AllOf(HasSubstr(reader.file), AnyOf(HasSubstr("UTF-16"), HasSubstr("is not valid JSON"))));
  }
}

}  // namespace
}  // namespace plimsoll
