#include "files/nifti.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <random>

#include "files/nifti_files.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string packed(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class NiftiTest : public ::testing::Test {
 protected:
  NiftiVolume read(const std::string& bytes) { return read_nifti(put_file(folder_ / "a.nii", bytes)); }
  std::string refusal(const std::string& bytes) {
    return user_error_of([&] { read(bytes); });
  }
  TempFolder folder_;
  std::string good_ = nifti_bytes<int16_t>(NiftiType::int16, {2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -11});
};

TEST_F(NiftiTest, ReadsSizesSpacingAndValues) {
  const NiftiVolume volume = read(with_field(with_field(good_, 84, 2.5f), 112, 0.5f));
  EXPECT_EQ(volume.sizes, (std::array<int64_t, 3>{2, 3, 2}));
  EXPECT_EQ(volume.spacing, (std::array<double, 3>{1, 2.5, 1}));
  EXPECT_EQ(volume.index(1, 2, 1), 11);
  EXPECT_EQ(volume.number(11), -11);
  EXPECT_EQ(volume.at(11), -5.5);
  EXPECT_EQ(volume.at(volume.index(0, 1, 0)), 1);
}

TEST_F(NiftiTest, ReadsEveryTypePackedOrNotInEitherByteOrder) {
  std::mt19937 random(7);
  const auto same = [&](NiftiType type, auto zero) {
    using Number = decltype(zero);
    std::vector<Number> numbers(24);
    for (Number& number : numbers) number = static_cast<Number>(random() % 120);
    const std::string bytes = nifti_bytes<Number>(type, {4, 3, 2}, numbers);
    std::string swapped = bytes;
    const auto turn = [&](size_t at, size_t size) { std::reverse(swapped.begin() + at, swapped.begin() + at + size); };
    turn(0, 4);
    for (size_t at = 40; at < 56; at += 2) turn(at, 2);
    for (size_t at : {70, 72, 254}) turn(at, 2);
    for (size_t at = 76; at < 120; at += 4) turn(at, 4);
    for (size_t at = 352; at < bytes.size(); at += sizeof(Number)) turn(at, sizeof(Number));
    for (const std::string& each : {bytes, packed(bytes), swapped, packed(swapped)}) {
      const NiftiVolume volume = read(each);
      ASSERT_EQ(volume.voxels(), 24);
      EXPECT_EQ(volume.type, type);
      for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(volume.at(i), static_cast<double>(numbers[i])) << name_of(type);
    }
  };
  same(NiftiType::uint8, uint8_t{});
  same(NiftiType::int8, int8_t{});
  same(NiftiType::int16, int16_t{});
  same(NiftiType::uint16, uint16_t{});
  same(NiftiType::int32, int32_t{});
  same(NiftiType::uint32, uint32_t{});
  same(NiftiType::int64, int64_t{});
  same(NiftiType::uint64, uint64_t{});
  same(NiftiType::float32, float{});
  same(NiftiType::float64, double{});
}

// Large files are read a piece of 16 MiB at a time.
TEST_F(NiftiTest, ReadsFilesOfSeveralPieces) {
  constexpr int16_t kSide = 260;
  std::vector<uint8_t> numbers(size_t{kSide} * kSide * kSide);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint8_t>(i >> 16);
  const NiftiVolume volume = read(nifti_bytes(NiftiType::uint8, {kSide, kSide, kSide}, numbers));
  ASSERT_EQ(volume.voxels(), std::ssize(numbers));
  for (int64_t i = volume.voxels() - 1; i >= 0; i -= 1013)
    ASSERT_EQ(volume.at(i), numbers[static_cast<size_t>(i)]) << i;
}

TEST_F(NiftiTest, RefusesWhatIsNoNifti) {
  EXPECT_THAT(refusal("hello"), AllOf(HasSubstr("a.nii"), HasSubstr("ends inside the header")));
  EXPECT_THAT(refusal(""), HasSubstr("truncated"));
  EXPECT_THAT(refusal(std::string(1000, 'x')), HasSubstr("does not begin with 348"));
  EXPECT_THAT(refusal(with_field(good_, 344, 'x')), HasSubstr("no 'n+1'"));
  EXPECT_THAT(refusal(with_field(good_, 344, std::array<char, 4>{'n', 'i', '1', 0})), HasSubstr("pair of files"));
  EXPECT_THAT(refusal(with_field(good_, 0, int32_t{540})), HasSubstr("NIfTI-2"));
  EXPECT_THAT(user_error_of([&] { read_nifti(folder_ / "none.nii"); }), HasSubstr("cannot read"));
  EXPECT_THAT(user_error_of([&] { read_nifti(folder_.path()); }), HasSubstr("is a folder"));
}

TEST_F(NiftiTest, RefusesSizesThatTheFileCannotHoldBeforeTakingMemory) {
  // 2^45 voxels of 8 bytes, in a file of 400: an allocation of it would end the test.
  std::string huge = with_field(with_field(good_, 70, int16_t{64}), 72, int16_t{64});
  for (size_t at : {42, 44, 46}) huge = with_field(huge, at, std::numeric_limits<int16_t>::max());
  EXPECT_THAT(refusal(huge), HasSubstr("the file cannot hold more than"));
  EXPECT_THAT(refusal(packed(huge)), HasSubstr("the file cannot hold more than"));
  EXPECT_THAT(refusal(with_field(good_, 42, int16_t{-3})), HasSubstr("dimension 1 has -3 voxels"));
  EXPECT_THAT(refusal(with_field(good_, 44, int16_t{0})), HasSubstr("dimension 2 has 0 voxels"));
  EXPECT_THAT(refusal(with_field(good_, 40, int16_t{9})), HasSubstr("9 dimensions"));
  EXPECT_THAT(refusal(with_field(with_field(good_, 40, int16_t{4}), 48, int16_t{5})), HasSubstr("5 volumes"));
}

TEST_F(NiftiTest, RefusesTruncatedAndDamagedFiles) {
  EXPECT_THAT(refusal(good_.substr(0, good_.size() - 1)), HasSubstr("the file cannot hold"));
  const std::string small = packed(good_);
  for (size_t keep : {small.size() - 1, small.size() - 9, small.size() / 2, size_t{20}})
    EXPECT_THAT(refusal(small.substr(0, keep)), HasSubstr("trunc")) << keep;
  std::string other = small;
  other[other.size() - 5] ^= 1;  // the checksum
  EXPECT_THAT(refusal(other), HasSubstr("is damaged"));
}

TEST_F(NiftiTest, RefusesTypesAndValuesItCannotUse) {
  EXPECT_THAT(refusal(with_field(good_, 70, int16_t{128})), HasSubstr("type 128"));
  EXPECT_THAT(refusal(with_field(good_, 72, int16_t{32})), HasSubstr("int16 voxels of 32 bits"));
  EXPECT_THAT(refusal(with_field(good_, 108, 100.0f)), HasSubstr("begin at byte 100"));
  EXPECT_THAT(refusal(with_field(good_, 108, std::numeric_limits<float>::quiet_NaN())), HasSubstr("begin at byte nan"));
  EXPECT_THAT(refusal(with_field(with_field(good_, 112, 2.0f), 116, std::numeric_limits<float>::quiet_NaN())),
              HasSubstr("has scl_slope 2 and scl_inter nan"));
  const auto bad = nifti_bytes<float>(NiftiType::float32, {2, 1, 1}, {1, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_THAT(refusal(bad), HasSubstr("not a finite number, at (1, 0, 0)"));
}

// nibabel's rule: a slope of 0, NaN or infinity means that numbers are values, whatever the intercept.
TEST_F(NiftiTest, DoesNotScaleByASlopeThatIsNone) {
  for (const float slope : {0.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()})
    for (const float intercept : {3.0f, std::numeric_limits<float>::quiet_NaN()}) {
      const NiftiVolume volume = read(with_field(with_field(good_, 112, slope), 116, intercept));
      EXPECT_EQ(volume.slope, 1) << slope;
      EXPECT_EQ(volume.intercept, 0) << slope;
      EXPECT_EQ(volume.at(11), -11) << slope;
    }
  EXPECT_EQ(read(with_field(with_field(good_, 112, -2.0f), 116, 3.0f)).at(11), 25);
}

/// A gzip file of `header` and `zeros` bytes of 0, which deflate packs about 1000 to 1.
std::string packed_zeros(const std::string& header, int64_t zeros) {
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out, room(size_t{1} << 16, '\0');
  const auto add = [&](std::string_view bytes, int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(room.data());
      stream.avail_out = static_cast<uInt>(room.size());
      deflate(&stream, flush);
      out.append(room.data(), room.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  add(header, Z_NO_FLUSH);
  const std::string block(size_t{1} << 20, '\0');
  for (int64_t left = zeros; left > 0; left -= std::ssize(block))
    add(std::string_view(block).substr(0, static_cast<size_t>(std::min<int64_t>(left, std::ssize(block)))), Z_NO_FLUSH);
  add({}, Z_FINISH);
  deflateEnd(&stream);
  return out;
}

std::string header_of_cube(int16_t side) {
  std::string header = nifti_bytes<uint8_t>(NiftiType::uint8, {2, 2, 2}, {});
  for (size_t at : {42, 44, 46}) header = with_field(header, at, side);
  return header;
}

// The file could hold the 2 GiB that it announces: deflate packs them into 2 MB. Nothing of them is unpacked.
TEST_F(NiftiTest, RefusesAPackedFileThatUnpacksToMoreThanItMay) {
  const std::string file = packed_zeros(header_of_cube(1290), int64_t{1} << 20) + std::string(3 << 20, 'x');
  EXPECT_THAT(refusal(file), AllOf(HasSubstr("a.nii: announces 1290 x 1290 x 1290 voxels of uint8"),
                                   HasSubstr("2146689352 bytes; allowed: 5"), HasSubstr("gunzip")));
  const auto open = [&] { NiftiSeries(put_file(folder_ / "a.nii.gz", file)); };
  EXPECT_THAT(user_error_of(open), HasSubstr("2146689352 bytes; allowed"));
  const std::string text = user_error_of([&] {
    stream_nifti(
        put_file(folder_ / "b.nii.gz", packed_zeros(header_of_cube(600), 352) + std::string(1 << 20, 'x')), 4,
        [](const NiftiVolume&) { FAIL() << "nothing is read"; },
        [](int64_t, const NiftiVolume&, int64_t) { FAIL() << "nothing is read"; });
  });
  EXPECT_THAT(text, HasSubstr("which take 4 bytes each in memory"));
}

TEST_F(NiftiTest, RefusesMoreBytesThanTheHeaderAnnounces) {
  const std::string header = header_of_cube(2);
  EXPECT_EQ(read(packed_zeros(header, 8 + 65536)).voxels(), 8);
  EXPECT_THAT(refusal(packed_zeros(header, 8 + (int64_t{2} << 20))), HasSubstr("more than 65536 bytes behind"));
}

TEST_F(NiftiTest, HoldsAVolumeOnce) {
  std::vector<uint8_t> numbers(size_t{200} * 200 * 200, 1);
  const NiftiVolume volume = read(packed(nifti_bytes(NiftiType::uint8, {200, 200, 200}, numbers)));
  EXPECT_EQ(volume.bytes.capacity(), volume.bytes.size());
}

TEST_F(NiftiTest, StreamsWhatItReads) {
  std::vector<int16_t> numbers(size_t{130} * 130 * 130);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int16_t>(i * 7);
  const auto file = put_file(folder_ / "a.nii", packed(nifti_bytes(NiftiType::int16, {130, 130, 130}, numbers)));
  int64_t next = -1;
  stream_nifti(
      file, 2,
      [&](const NiftiVolume& layout) {
        EXPECT_EQ(layout.voxels(), std::ssize(numbers));
        next = 0;
      },
      [&](int64_t first, const NiftiVolume& piece, int64_t count) {
        ASSERT_EQ(first, next);
        ASSERT_LE(piece.bytes.size(), size_t{1} << 20);
        for (int64_t i = 0; i < count; ++i) ASSERT_EQ(piece.number(i), numbers[static_cast<size_t>(next++)]);
      });
  EXPECT_EQ(next, std::ssize(numbers));
  const auto bad = nifti_bytes<float>(NiftiType::float32, {2, 1, 1}, {1, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_THAT(user_error_of([&] {
                stream_nifti(
                    put_file(folder_ / "b.nii", bad), 1, [](const auto&) {}, [](int64_t, const auto&, int64_t) {});
              }),
              HasSubstr("not a finite number, at (1, 0, 0)"));
}

TEST_F(NiftiTest, NoSpoiledHeaderDoesMoreThanRefuse) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good_;
    for (int i = 0; i < 3; ++i) bytes[random() % 352] = static_cast<char>(random());
    try {
      EXPECT_LE(read(bytes).bytes.size(), good_.size());
    } catch (const UserError&) {
    }
  }
}

}  // namespace
}  // namespace plimsoll
