// Declares what the readers of PNG and JPEG pictures and masks do with each fact of a file.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::pictures {

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
