// Declares the samples of `data.type: pictures` (a picture, a prompt for a structure in it, its mask), and what
// their readers do with each fact of a PNG or JPEG file.
#pragma once

#include <functional>
#include <memory>

#include "data/masks/slice_samples.h"
#include "files/file_kind.h"

namespace plimsoll {

/// Returns samples with the same fields as slice_samples(). There is one sample for each of picture_tasks()
/// (data/masks/picture_list.h) whose mask has at least config.slices.min_pixels; shape.channels is 1 or 3.
///
/// Pictures are held out whole, with all their structures: those that a list marks, and of the rest the fractions
/// config.test_fraction and config.validation_fraction. A fraction above 0 has at least one picture; a hash of the
/// names chooses them, and with_every_label() (data/parts.h) others if a part then lacks a structure that
/// has room there. Notes name the structures that a part lacks. Split::validation is the part that config.evaluate_on
/// names.
///
/// All masks are read in this call to count pixels, and the pictures are validated without decoding. `progress` is
/// called meanwhile and may stop the call by throwing. Pictures are decoded when they are needed; up to 256 MiB of them
/// are cached. Throws UserError for unreadable files, pictures and masks of different sizes, a prompt that is too long,
/// and if nothing is left to train on.
std::unique_ptr<SampleSource> picture_samples(const DataConfig& config, const SliceShape& shape,
                                              const Tokenizer& tokenizer,
                                              const std::function<void(double fraction)>& progress, uint64_t seed);

}  // namespace plimsoll

namespace plimsoll::pictures {

/// The treatment of each fact of a PNG or JPEG picture or mask.
inline constexpr FileFact kFacts[] = {
    {"picture and mask", "sizes", "applied", "as seen, after the orientation of each is applied; they must be equal"},
    {"picture and mask", "orientations that differ", "applied",
     "each its own; a note says that the mask must lie on the picture as it is seen"},
    {"picture and mask", "numbers of a mask", "applied",
     "gray values, indices of a palette, or colors that are all gray; masks in other colors are refused"},
    {"picture and mask", "transparency of a mask", "refused",
     "unless the transparent pixels are those of number 0; save it without transparency"},
    {"picture and mask", "masks in JPEG", "applied",
     "of one structure: values above half; by numbers they are refused"},
    {"JPEG", "EXIF orientation", "applied",
     "1 to 8, for pictures and masks; 0 and other numbers are upright, as in viewers"},
    {"JPEG", "XMP orientation (tiff:Orientation)", "refused",
     "if it is 2 to 8 and EXIF data have none; otherwise EXIF data count, as in Pillow and browsers"},
    {"JPEG", "color space (YCbCr, RGB, gray, CMYK)", "applied", "pictures become red, green and blue, or gray"},
    {"JPEG", "values of other than 8 bits", "refused", "save it as PNG"},
    {"JPEG", "color profile (ICC)", "ignored",
     "values are read as they are stored, as in Pillow; a note names profiles other than sRGB"},
    {"JPEG", "density, thumbnails, gain maps and further pictures (MPF)", "ignored",
     "viewers show the first picture with square pixels"},
    {"JPEG", "end of the picture", "applied", "a picture that ends early is an error; bytes behind it are not read"},
    {"PNG", "bits, 1 to 16", "applied", "values are divided by the largest one of their bits: 65535 for 16"},
    {"PNG", "sBIT", "ignored", "PNG scales values to all bits, as viewers expect"},
    {"PNG", "palette", "applied", "pictures have its colors; numbers of a mask are its indices"},
    {"PNG", "alpha, tRNS", "applied",
     "pictures are shown on white, with a note; pixels without transparency keep their values"},
    {"PNG", "bKGD", "ignored", "the background is white, as in browsers"},
    {"PNG", "EXIF orientation (eXIf, Raw profile type exif or APP1)", "applied", "1 to 8, for pictures and masks"},
    {"PNG", "XMP orientation (tiff:Orientation)", "refused",
     "if it is 2 to 8 and EXIF data have none; otherwise EXIF data count, as in Pillow"},
    {"PNG", "iCCP, gAMA", "ignored",
     "values are read as they are stored, as in Pillow; a note names profiles other than sRGB and gammas outside 0.44 "
     "to 0.47"},
    {"PNG", "cHRM, sRGB, pHYs", "ignored", "values are read as they are stored, and pixels as squares, as in Pillow"},
    {"PNG", "cICP", "refused",
     "if it says PQ; convert it to SDR. HLG is read as a screen without HDR shows it, with a note"},
    {"PNG", "acTL, fcTL, fdAT", "ignored", "the still picture is read, with a note"},
    {"PNG", "chunks' checksums, length of the image", "applied", "damage is an error"},
    {"PNG", "text, time, histogram and other chunks", "ignored", "they do not say how the picture is shown"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::pictures
