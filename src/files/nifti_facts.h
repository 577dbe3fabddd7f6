// Declares what the reader of NIfTI-1 files does with each field of the header, in the order of nifti1.h.
#pragma once

#include "files/file_facts.h"

namespace plimsoll::nifti {

inline constexpr FileFact kFacts[] = {
    {"NIfTI-1", "sizeof_hdr, magic", "applied",
     "either byte order; NIfTI-2, ANALYZE and pairs of .hdr and .img are refused by name"},
    {"NIfTI-1", "data_type, db_name, extents, session_error, regular", "ignored", "unused fields of ANALYZE"},
    {"NIfTI-1", "dim_info", "ignored", "directions of the scanner's encoding; samples are made of voxels"},
    {"NIfTI-1", "dim", "applied",
     "a volume has three dimensions, a series its volumes along the fourth; sizes above 1 along further dimensions are "
     "refused"},
    {"NIfTI-1", "intent_p1, intent_p2, intent_p3, intent_code, intent_name", "ignored",
     "the job says what a volume is used as"},
    {"NIfTI-1", "datatype, bitpix", "applied",
     "whole and floating-point numbers of 8 to 64 bits; other types, and two fields that differ, are refused"},
    {"NIfTI-1", "slice_start, slice_end, slice_code, slice_duration", "ignored",
     "times of slices within a volume; a volume is one moment, and data.fmri_delay counts volumes"},
    {"NIfTI-1", "pixdim[0]", "applied", "qfac of the qform: -1, else 1, as in nibabel"},
    {"NIfTI-1", "pixdim[1], pixdim[2], pixdim[3]", "applied",
     "distances of voxels; 0 is 1, and the sform's lengths count if they differ, as in nibabel; without an sform, "
     "numbers that are not finite are refused"},
    {"NIfTI-1", "pixdim[4]", "applied",
     "repetition time in the unit of xyzt_units; a time below 0.02 s or above 60 s is refused with the likely unit "
     "unless data.repetition_time is set"},
    {"NIfTI-1", "pixdim[5], pixdim[6], pixdim[7]", "ignored", "steps along dimensions of size 1"},
    {"NIfTI-1", "vox_offset", "applied", "0 is 352; other bytes before 352 are refused"},
    {"NIfTI-1", "scl_slope", "applied",
     "0, NaN and infinity mean no scaling, as in nibabel; labels with a scale other than 1 are refused"},
    {"NIfTI-1", "scl_inter", "applied",
     "with a finite scl_slope other than 0; an intercept that is not finite is refused"},
    {"NIfTI-1", "xyzt_units", "applied",
     "two known units of length are converted for a comparison of grids; a time in hertz, ppm or radians is refused, "
     "and an unknown unit of time is taken as seconds with a note"},
    {"NIfTI-1", "cal_max, cal_min", "ignored", "range of a display"},
    {"NIfTI-1", "toffset", "ignored", "times of stimuli count from the first volume; data.fmri_delay shifts them"},
    {"NIfTI-1", "glmax, glmin", "ignored", "unused fields of ANALYZE"},
    {"NIfTI-1", "descrip, aux_file", "ignored", "free text"},
    {"NIfTI-1", "qform_code, quatern_b, quatern_c, quatern_d, qoffset_x, qoffset_y, qoffset_z", "applied",
     "the map to the world if sform_code is 0 (method 2); codes above 5 and a quaternion longer than 1 are refused; if "
     "both codes are 0, the position is unknown, and equals no known position"},
    {"NIfTI-1", "sform_code, srow_x, srow_y, srow_z", "applied",
     "the map to the world (method 3), also if the qform differs, as in nibabel, with a note if both codes are equal; "
     "codes above 5 and a map that is not "
     "finite or is flat are refused"},
    {"NIfTI-1", "extension", "ignored", "free bytes of other programs between the header and the voxels"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::nifti
