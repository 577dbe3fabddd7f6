// Writes the profiled steps of all ranks to one file.
#pragma once

#include <filesystem>
#include <vector>

#include "collectives/exchange.h"
#include "run/profile/profile_file.h"

namespace plimsoll {

/// Writes the steps of every rank to `file` of rank 0, whole or not at all: a process for each rank, "rank R on HOST".
/// All ranks call it, each with its own steps, at least one. Ranks of one host share one clock, whose earliest
/// beginning of a step is 0 in the file. The first profiled steps of different hosts therefore begin together. Events
/// go to rank 0 in pieces of about 1 MiB. Throws UserError (failure) on every rank if rank 0 cannot write the file.
void write_profile_of_ranks(const std::filesystem::path& file, const ProfileTitle& title,
                            const std::vector<ProfiledStep>& steps, Exchange& exchange);

}  // namespace plimsoll
