#include "files/nifti_header.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <set>

#include "files/file_kind.h"
#include "files/nifti.h"
#include "files/nifti_files.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Map = std::array<double, 12>;

class NiftiHeaderTest : public ::testing::Test {
 protected:
  NiftiVolume read(const std::string& bytes) { return read_nifti(put_file(folder_ / "a.nii", bytes)); }
  std::string refusal(const std::string& bytes) {
    return user_error_of([&] { read(bytes); });
  }
  static std::string with_sform(std::string bytes, int16_t code, const Map& map) {
    for (size_t i = 0; i < map.size(); ++i) bytes = with_field(bytes, 280 + 4 * i, static_cast<float>(map[i]));
    return with_field(bytes, 254, code);
  }
  static std::string with_qform(std::string bytes, int16_t code, const std::array<double, 6>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) bytes = with_field(bytes, 256 + 4 * i, static_cast<float>(numbers[i]));
    return with_field(bytes, 252, code);
  }
  static void expect_near(const Map& map, const Map& wanted, double tolerance) {
    for (size_t i = 0; i < map.size(); ++i) EXPECT_NEAR(map[i], wanted[i], tolerance) << i;
  }

  TempFolder folder_;
  std::string good_ = nifti_bytes<uint8_t>(NiftiType::uint8, {2, 2, 2}, std::vector<uint8_t>(8, 1));
  static constexpr Map kMap = {2, 0, 0, -5, 0, 2, 0, 6, 0, 0, 2, 7};
};

// nibabel's get_best_affine(): sform, else qform, else none.
TEST_F(NiftiHeaderTest, SformPlacesBeforeQform) {
  const Map still = {1, 0, 0, 4, 0, 1, 0, 5, 0, 0, 1, 6};
  const std::array<double, 6> numbers = {0, 0, 0, 4, 5, 6};
  const NiftiVolume none = read(with_qform(with_sform(good_, 0, kMap), 0, numbers));
  EXPECT_EQ(none.place, NiftiPlace::none);
  EXPECT_EQ(none.to_world, Map{});
  EXPECT_EQ(none.spacing, (std::array<double, 3>{1, 1, 1}));
  const NiftiVolume qform = read(with_qform(with_sform(good_, 0, kMap), 2, numbers));
  EXPECT_EQ(qform.place, NiftiPlace::qform);
  EXPECT_EQ(qform.to_world, still);
  for (const int16_t code : {0, 1}) {
    const NiftiVolume sform = read(with_qform(with_sform(good_, 4, kMap), code, numbers));
    EXPECT_EQ(sform.place, NiftiPlace::sform);
    EXPECT_EQ(sform.to_world, kMap);
    EXPECT_EQ(sform.spacing, (std::array<double, 3>{2, 2, 2}));  // pixdim says 1
  }
}

// Scanners write both forms, and programs change one of them.
TEST_F(NiftiHeaderTest, NotesThatTwoFormsOfOneCodeDiffer) {
  const auto notes_of = [&](int16_t sform, int16_t qform, const Map& map, const std::array<double, 6>& numbers) {
    DataNotes notes;
    const DataNotes::Scope scope(notes);
    read(with_qform(with_sform(good_, sform, map), qform, numbers));
    return notes.lines();
  };
  const Map still = {1, 0, 0, 4, 0, 1, 0, 5, 0, 0, 1, 6};
  EXPECT_THAT(notes_of(1, 1, still, {0, 0, 0, 4, 5, 6}), IsEmpty());
  EXPECT_THAT(notes_of(1, 1, still, {0, 0, 0, 4, 5, 9}),
              ElementsAre(AllOf(HasSubstr("a.nii: sform and qform have one code and differ"), HasSubstr("3 mm apart"),
                                HasSubstr("the sform is used"))));
  EXPECT_THAT(notes_of(1, 1, kMap, {0, 0, 0, -5, 6, 7}), ElementsAre(HasSubstr("2, 2, 2 mm against 1, 1, 1 mm")));
  EXPECT_THAT(notes_of(4, 1, kMap, {0, 0, 0, 4, 5, 9}), IsEmpty());
  EXPECT_THAT(notes_of(1, 1, still, {0.8, 0.8, 0, 4, 5, 9}), IsEmpty());  // no map
}

TEST_F(NiftiHeaderTest, QformIsARotationWithSpacings) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> within(-1, 1);
  for (int round = 0; round < 200; ++round) {
    std::array<double, 3> axis = {within(random), within(random), within(random)};
    const double length = std::hypot(axis[0], axis[1], axis[2]);
    if (length < 0.1) continue;
    for (double& each : axis) each /= length;
    const double angle = std::numbers::pi * within(random), c = std::cos(angle), s = std::sin(angle);
    const std::array<double, 3> step = {0.5 + within(random) / 4, 2 + within(random), 3 + within(random)};
    const bool left_handed = round % 2 == 1;
    // Rodrigues' formula, which does not use quaternions.
    Map wanted{};
    for (size_t row = 0; row < 3; ++row)
      for (size_t column = 0; column < 3; ++column) {
        const double cross = row == column ? 0 : (((column + 3 - row) % 3 == 1) ? -1 : 1) * axis[3 - row - column];
        const double turned = (row == column ? c : 0) + s * cross + (1 - c) * axis[row] * axis[column];
        wanted[4 * row + column] = turned * step[column] * (column == 2 && left_handed ? -1 : 1);
      }
    std::array<double, 6> numbers{};
    for (size_t i = 0; i < 3; ++i) {
      numbers[i] = std::sin(angle / 2) * axis[i];
      wanted[4 * i + 3] = numbers[3 + i] = 100 * within(random);
    }
    std::string bytes = with_qform(good_, 1, numbers);
    for (size_t i = 0; i < 3; ++i) bytes = with_field(bytes, 80 + 4 * i, static_cast<float>(step[i]));
    bytes = with_field(bytes, 76, left_handed ? -1.0f : round % 4 == 0 ? 0.0f : 1.0f);
    // cos(angle / 2) follows from the other three in float32; near half a turn its error is the root of theirs.
    expect_near(read(bytes).to_world, wanted, std::abs(std::cos(angle / 2)) < 0.05 ? 1e-2 : 1e-4);
  }
}

// Half a turn: the sum of squares may exceed 1 by the rounding of float32.
TEST_F(NiftiHeaderTest, QformOfHalfATurn) {
  const double half = std::sqrt(0.5);
  expect_near(read(with_qform(good_, 1, {half, half, 0, 1, 2, 3})).to_world, {0, 1, 0, 1, 1, 0, 0, 2, 0, 0, -1, 3},
              1e-6);
  EXPECT_THAT(refusal(with_qform(good_, 1, {0.8, 0.8, 0, 0, 0, 0})),
              AllOf(HasSubstr("a.nii"), HasSubstr("longer than 1")));
}

TEST_F(NiftiHeaderTest, RefusesFormsThatAreNoMap) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const int16_t code : {-1, 6, 255}) {
    EXPECT_THAT(refusal(with_sform(good_, code, kMap)), HasSubstr("sform_code"));
    EXPECT_THAT(refusal(with_qform(good_, code, {})), HasSubstr("qform_code"));
  }
  Map map = kMap;
  map[6] = none;
  EXPECT_THAT(refusal(with_sform(good_, 1, map)), HasSubstr("in its sform that is not finite"));
  EXPECT_EQ(read(with_sform(good_, 0, map)).place, NiftiPlace::none);
  EXPECT_THAT(refusal(with_sform(good_, 1, {1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0})),
              HasSubstr("sform that maps the volume"));
  EXPECT_THAT(refusal(with_sform(good_, 1, {})), HasSubstr("sform that maps the volume"));
  EXPECT_THAT(refusal(with_qform(good_, 1, {0, none, 0, 0, 0, 0})), HasSubstr("longer than 1"));
  EXPECT_THAT(refusal(with_qform(good_, 1, {0, 0, 0, 0, none, 0})), HasSubstr("in its qform that is not finite"));
  const std::string endless = with_field(good_, 84, std::numeric_limits<float>::infinity());
  EXPECT_THAT(refusal(endless), HasSubstr("pixdim[2] inf"));
  EXPECT_EQ(read(with_sform(endless, 1, kMap)).spacing[1], 2);
}

TEST_F(NiftiHeaderTest, QuestionsRepetitionTimesOfNoScanner) {
  const auto time = [&](float value, int unit) {
    const std::string bytes = with_field(with_field(good_, 92, value), 123, static_cast<uint8_t>(2 | unit));
    return NiftiSeries(put_file(folder_ / "a.nii", bytes)).time();
  };
  constexpr int kSeconds = 8, kMilliseconds = 16, kMicroseconds = 24, kHertz = 32;
  for (const auto& [value, unit] : {std::pair{2.0f, kSeconds}, {2000.0f, kMilliseconds}, {2e6f, kMicroseconds}}) {
    EXPECT_DOUBLE_EQ(time(value, unit).seconds, 2);
    EXPECT_THAT(time(value, unit).question, IsEmpty());
    EXPECT_THAT(time(value, unit).assumption, IsEmpty());
  }
  EXPECT_THAT(time(2000, kSeconds).question, AllOf(HasSubstr("pixdim[4] is 2000 seconds"),
                                                   HasSubstr("if they are milliseconds, set data.repetition_time: 2"),
                                                   HasSubstr("if the time is right, set data.repetition_time: 2000")));
  EXPECT_THAT(time(2, kMilliseconds).question, AllOf(HasSubstr("2 milliseconds, 0.002 seconds"),
                                                     HasSubstr("if they are seconds, set data.repetition_time: 2;")));
  EXPECT_THAT(time(720000, kSeconds).question, HasSubstr("if they are microseconds, set data.repetition_time: 0.72;"));
  EXPECT_THAT(time(2000, 0).question, HasSubstr("2000 of an unknown unit"));
  EXPECT_THAT(time(2, kHertz).question, HasSubstr("which is no time"));
  EXPECT_EQ(time(2, kHertz).seconds, 0);
  EXPECT_DOUBLE_EQ(time(2, 0).seconds, 2);
  EXPECT_THAT(time(2, 0).assumption, HasSubstr("taken as seconds"));
  EXPECT_EQ(time(0, kSeconds).seconds, 0);
  EXPECT_THAT(time(0, kSeconds).question, IsEmpty());
}

// Every field of nifti1.h is in one row.
TEST(NiftiFacts, HaveEveryFieldOfTheHeaderOnce) {
  std::multiset<std::string> fields;
  for (const FileFact& fact : nifti::kFacts) {
    EXPECT_EQ(fact.format, "NIfTI-1");
    for_each_field_of(fact, [&](std::string_view field) { fields.emplace(field); });
  }
  for (const char* name :
       {"sizeof_hdr",  "data_type", "db_name",    "extents",        "session_error", "regular",   "dim_info",
        "dim",         "intent_p1", "intent_p2",  "intent_p3",      "intent_code",   "datatype",  "bitpix",
        "slice_start", "pixdim[0]", "pixdim[1]",  "pixdim[2]",      "pixdim[3]",     "pixdim[4]", "pixdim[5]",
        "pixdim[6]",   "pixdim[7]", "vox_offset", "scl_slope",      "scl_inter",     "slice_end", "slice_code",
        "xyzt_units",  "cal_max",   "cal_min",    "slice_duration", "toffset",       "glmax",     "glmin",
        "descrip",     "aux_file",  "qform_code", "sform_code",     "quatern_b",     "quatern_c", "quatern_d",
        "qoffset_x",   "qoffset_y", "qoffset_z",  "srow_x",         "srow_y",        "srow_z",    "intent_name",
        "magic",       "extension"})
    EXPECT_EQ(fields.count(name), 1u) << name;
  EXPECT_EQ(fields.size(), 51u);
}

}  // namespace
}  // namespace plimsoll
