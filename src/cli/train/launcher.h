// Whether a launcher (torchrun, accelerate, deepspeed, mpirun, srun) has started the program several times, each for a
// device of its own.
#pragma once

namespace plimsoll::cli {

/// Throws UserError (usage) where the launchers' variables say that there are several of this process: each would train
/// the whole job, and all would write to one folder.
void refuse_several_processes();

}  // namespace plimsoll::cli
