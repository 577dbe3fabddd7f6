// Declares what the readers of videos and sound do with each fact of a file.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::media {

inline constexpr FileFact kFacts[] = {
    {"video", "display matrix of the stream or of a picture", "applied",
     "quarter turns and mirrors, exactly: pictures are upright; its scale and shift have no effect"},
    {"video", "display matrix of another angle, sheared or in perspective", "refused",
     "write turned pictures with: ffmpeg -i IN OUT"},
    {"video", "display matrices of stream and picture that differ", "refused",
     "write turned pictures with: ffmpeg -i IN OUT"},
    {"video", "display matrix of zeros", "ignored", "it shows nothing; players show the stored pictures"},
    {"video", "sample aspect ratio", "ignored",
     "pictures are scaled to a square whatever their sides, as they would be after they are stretched to square "
     "pixels"},
    {"video", "time stamps of pictures", "applied",
     "a picture is shown until the next begins; frame rates may vary; time counts from the first picture"},
    {"video", "frame rate", "ignored",
     "except in streams without time stamps or a length, which have one of 25 if none is stated"},
    {"video", "matrix and range of colors", "applied", "BT.601 if the matrix is not stated, as in FFmpeg"},
    {"video", "matrices YCgCo, ICtCp, BT.2020 of constant luminance and derived from primaries", "refused",
     "convert it: ffmpeg -i IN -vf zscale=m=bt709 OUT"},
    {"video", "transfer PQ (HDR10, HDR10+)", "refused", "map it to SDR; the message has a command of ffmpeg"},
    {"video", "Dolby Vision without a compatible base (profile 5)", "refused", "convert it to SDR"},
    {"video", "transfer HLG", "ignored", "values are read as a screen without HDR shows them; a note names the files"},
    {"video", "other transfers, primaries of colors", "ignored",
     "values are read as they are stored, as FFmpeg scales them"},
    {"video", "interlacing", "ignored",
     "the lines of both moments are one picture; a note names the files and a filter of ffmpeg"},
    {"video", "panoramas (spherical), two views (3D)", "ignored",
     "pictures are read flat, as they are stored; a note names the files"},
    {"video", "transparency", "applied",
     "pictures are shown on white, with a note; other pictures keep their values, and so do pictures whose alphas are "
     "all 0"},
    {"video", "EXIF orientation of pictures in MJPEG", "applied", "as a display matrix"},
    {"video", "tag rotate", "ignored", "players turn by the display matrix alone; a note names the files without one"},
    {"video", "further streams of pictures, cover pictures, subtitles, chapters", "ignored",
     "the best stream is read, as FFmpeg chooses it"},
    {"video", "references to other files, playlists", "refused", "one file is read"},
    {"video", "length", "applied", "a part that is missing is an error, except the last 0.25 seconds"},
    {"sound", "channels", "applied", "they are averaged to one"},
    {"sound", "sample rate", "applied", "the sound is resampled"},
    {"sound", "length", "applied", "a part that is missing or cannot be decoded is an error"},
    {"sound", "gain, loudness and other tags", "ignored", "samples are read as they are stored"},
    {"sound", "further streams of sound", "ignored", "the best stream is read, as FFmpeg chooses it"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::media
