#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "device/host_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/train_job.h"
#include "train/plan_options.h"
#include "train/vocabulary.h"

namespace plimsoll {
namespace {

std::vector<int64_t> divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t each = 1; each <= number; ++each)
    if (number % each == 0) divisors.push_back(each);
  return divisors;
}

int64_t numbers_learned(const Trace& trace) {
  int64_t count = 0;
  for (const NamedView& entry : trace.state)
    if (trace.buffers[entry.view.buffer].role == Role::parameter) count += entry.view.elements();
  return count;
}

class JobPlanner {
 public:
  explicit JobPlanner(const Job& job) : job_(job) {
    check(job.batch_size && *job.batch_size >= 1, "Job::batch_size is filled in before the job is planned");
    check(job.micro_batch_size.has_value() == job.gradient_accumulation_steps.has_value(),
          "a job's micro batch and its accumulation are both set or both open");
    job_.model.decoder.vocab_size = vocabulary_of(job);
    if (!job_.memory_budget) find_budget();
  }

  PlannedJob run() {
    PlannedJob planned = job_.micro_batch_size ? plan(*job_.micro_batch_size, *job_.gradient_accumulation_steps)
                                               : plan_open_micro_batch();
    planned.settings.reasons.insert(planned.settings.reasons.end(), reasons_.begin(), reasons_.end());
    planned.plan.reasons.insert(planned.plan.reasons.end(), planned.settings.reasons.begin(),
                                planned.settings.reasons.end());
    return planned;
  }

 private:
  void find_budget() {
    if (job_.device != "cpu") {
      reasons_.push_back({"memory_budget: none", fmt::format("what a device '{}' has is not known here; set "
                                                             "memory_budget to plan for one",
                                                             job_.device)});
      return;
    }
    const std::optional<int64_t> available = available_host_memory();
    if (!available) {
      reasons_.push_back({"memory_budget: none", "the system does not say how much memory is available"});
      return;
    }
    // The rest is for what is not in the arena: the program, the data's batches, the page cache of its text.
    job_.memory_budget = *available / 10 * 9;
    reasons_.push_back({"memory_budget: " + format_bytes(*job_.memory_budget),
                        fmt::format("90 % of the {} that are available on this machine", format_bytes(*available))});
  }

  PlannedJob plan(int64_t micro_batch_size, const AccumulationSchedule& accumulation) const {
    Job job = job_;
    job.micro_batch_size = micro_batch_size;
    job.gradient_accumulation_steps = accumulation;
    const TrainingOptions options = options_of(job);
    PlannedJob planned;
    const auto start = std::chrono::steady_clock::now();
    planned.recorded = record_step(step_of(job, micro_batch_size), options);
    planned.record_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    planned.plan = make_plan(planned.recorded, plan_options_of(options));
    planned.settings.vocab_size = job.model.decoder.vocab_size;
    planned.settings.micro_batch_size = micro_batch_size;
    planned.settings.accumulation = accumulation;
    planned.settings.memory_budget = job.memory_budget;
    planned.settings.parameters = numbers_learned(planned.recorded);
    return planned;
  }

  PlannedJob plan_divisor(int64_t micro_batch_size) const {
    return plan(micro_batch_size, {{0, *job_.batch_size / micro_batch_size}});
  }

  // The largest divisor that fits. A step of a whole batch does not accumulate, so it stands apart; among the others
  // bytes grow with the micro batch, and the largest is found by halves.
  PlannedJob plan_open_micro_batch() const {
    const std::vector<int64_t> divisors = divisors_of(*job_.batch_size);
    PlannedJob chosen = plan_divisor(divisors.back());
    std::string why = fmt::format("the whole batch_size {} fits", *job_.batch_size);
    int64_t minimum = chosen.plan.minimum_budget_bytes;
    if (divisors.size() > 1) {
      PlannedJob smallest = plan_divisor(divisors.front());
      minimum = std::min(minimum, smallest.plan.minimum_budget_bytes);
      if (!chosen.plan.fits && smallest.plan.fits) {
        chosen = std::move(smallest);
        why = fmt::format("the largest divisor of batch_size {} that fits", *job_.batch_size);
        for (size_t low = 1, high = divisors.size() - 1; low < high;) {
          const size_t middle = (low + high) / 2;
          PlannedJob candidate = plan_divisor(divisors[middle]);
          if (candidate.plan.fits) {
            chosen = std::move(candidate);
            low = middle + 1;
          } else {
            high = middle;
          }
        }
      } else if (!chosen.plan.fits) {
        if (smallest.plan.minimum_budget_bytes <= chosen.plan.minimum_budget_bytes) chosen = std::move(smallest);
        why = fmt::format("no divisor of batch_size {} fits; this one needs least", *job_.batch_size);
      }
    } else if (!chosen.plan.fits) {
      why = fmt::format("it is the whole batch_size, {}, and does not fit", *job_.batch_size);
    }
    chosen.plan.minimum_budget_bytes = minimum;
    chosen.settings.reasons.push_back({fmt::format("micro_batch_size: {}", chosen.settings.micro_batch_size), why});
    return chosen;
  }

  Job job_;  // with the vocabulary and, as far as it is known, the budget filled in
  std::vector<Reason> reasons_;
};

}  // namespace

Step step_of(const Job& job, int64_t micro_batch_size) {
  check(job.model.type == "decoder", "unknown model type " + job.model.type);
  DecoderConfig config = job.model.decoder;
  config.vocab_size = vocabulary_of(job);
  return decoder_step(config, micro_batch_size, job.data.sequence_length);
}

TrainingOptions options_of(const Job& job) {
  TrainingOptions options;
  options.precision = job.precision;
  options.optimizer = job.optimizer;
  options.max_grad_norm = job.max_grad_norm;
  options.accumulate =
      job.gradient_accumulation_steps
          ? std::ranges::any_of(*job.gradient_accumulation_steps, [](const auto& entry) { return entry.second > 1; })
          : job.batch_size.value_or(1) > 1;
  options.evaluate = job.data.validation_fraction > 0;
  options.gradient_checkpointing = job.gradient_checkpointing;
  options.memory_budget = job.memory_budget;
  options.device = job.device;
  options.threads = static_cast<int>(job.threads);
  options.seed = job.seed;
  return options;
}

PlannedJob plan_job(const Job& job) {
  return JobPlanner(job).run();
}

Job pinned(Job job, const JobSettings& settings) {
  job.model.decoder.vocab_size = settings.vocab_size;
  job.micro_batch_size = settings.micro_batch_size;
  job.gradient_accumulation_steps = settings.accumulation;
  job.batch_size = settings.micro_batch_size * settings.accumulation.at(0);
  job.memory_budget = settings.memory_budget;
  return job;
}

}  // namespace plimsoll
