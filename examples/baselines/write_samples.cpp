// Writes the samples of a job, as its model reads them, to a safetensors file for baselines.py.
//
//     write_samples FILE TRAINED EVALUATED FIELD[,FIELD...] JOB [KEY=VALUE...]
//
// The file has the tensors "train.FIELD" and "held_out.FIELD" of the first TRAINED samples that a run reads and of the
// EVALUATED samples that its evaluations read. 0: all samples, in the order of the data; -N: N of them, evenly spread.
// Its metadata "train" and "held_out" have a line with the name of each sample.
#include <fmt/format.h>
#include <plimsoll/error.h>
#include <plimsoll/job.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "plimsoll/plan_job.h"
#include "safetensors/safetensors.h"
#include "train/job_data.h"
#include "train/micro_batches.h"

namespace {

using plimsoll::Split;

/// Writes the fields `fields` (with a comma before and after each) of the first samples of both parts.
void write_samples(const plimsoll::Job& job, const std::string& file, int64_t trained, int64_t evaluated,
                   const std::string& fields) {
  const plimsoll::Step step = plimsoll::step_of(job, 1);
  const plimsoll::OpenedSamples opened = plimsoll::open_samples(job, step, [](const std::string&, double) {});
  std::vector<plimsoll::TensorDeclaration> tensors;
  std::vector<std::vector<std::byte>> bytes;
  std::map<std::string, std::string> names;
  for (const Split split : {Split::train, Split::validation}) {
    const bool trains = split == Split::train;
    const std::string part = trains ? "train" : "held_out";
    const int64_t all = opened.source->samples(split), wanted = trains ? trained : evaluated;
    if (all == 0) continue;
    const std::vector<int64_t> positions =
        plimsoll::evenly_spread(wanted > 0 ? std::min(wanted, all) : all, wanted < 0 ? -wanted : all);
    // A run draws evaluated samples only if its model can leave samples out (MicroBatches).
    const bool shuffled = trains ? job.data.shuffle : plimsoll::uses_sample_mask(step.inputs) && wanted < all;
    const plimsoll::WindowOrder order(all, trains ? job.seed : 0, wanted > 0 && shuffled);
    const size_t first = tensors.size();
    for (const int64_t position : positions) {
      names[part] += opened.source->name_of(split, order.index(position)) + "\n";
      size_t at = first;
      for (const plimsoll::BatchField& field : opened.source->batch(order, split, position, 1).fields) {
        if (fields.find("," + field.name + ",") == std::string::npos) continue;
        if (at == tensors.size()) {
          tensors.push_back({part + "." + field.name, field.dtype, field.sizes, {}});
          tensors.back().sizes[0] = std::ssize(positions);
          bytes.emplace_back();
        }
        bytes[at].insert(bytes[at].end(), field.bytes.begin(), field.bytes.end());
        ++at;
      }
    }
  }
  plimsoll::SafetensorsWriter writer(file, tensors, names);
  for (size_t i = 0; i < tensors.size(); ++i) writer.write(tensors[i].name, bytes[i]);
  writer.commit();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("usage: write_samples FILE TRAINED EVALUATED FIELD[,FIELD...] JOB [KEY=VALUE...]\n", stderr);
    return 2;
  }
  try {
    const plimsoll::Job job = plimsoll::read_job(argv[5], {argv + 6, argv + argc});
    write_samples(job, argv[1], std::stoll(argv[2]), std::stoll(argv[3]), fmt::format(",{},", argv[4]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
