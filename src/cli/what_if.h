// What smaller models would need, as a table and as JSON.
#pragma once

#include "cli/json_output.h"
#include "plimsoll/train_job.h"
#include "report/terminal.h"

namespace plimsoll::cli {

std::string what_if_table(const Job& job, const std::vector<ModelChange>& changes, const Screen& screen);
Json what_if_json(const std::vector<ModelChange>& changes);

}  // namespace plimsoll::cli
