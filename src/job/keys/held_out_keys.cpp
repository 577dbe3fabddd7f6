#include "job/keys/held_out_keys.h"

#include <fmt/format.h>

#include "job/keys/key_kinds.h"
#include "job/keys/model_kind.h"

namespace plimsoll::job {

std::vector<Key> held_out_keys() {
  using D = DataConfig;
  return {
      number("data.test_fraction", &D::test_fraction, {.min = 0, .max = 0.5, .none = true},
             "fraction of the data that is held out for a final test, separate from data.validation_fraction: not used "
             "for training or for the choice of settings"),
      word("data.evaluate_on", &D::evaluate_on, {"validation", "test"},
           "held-out part that evaluations use; no effect on the training data"),
  };
}

void check_held_out(const Job& job, const KeyLocations& locations, const char* other) {
  if (job.data.evaluate_on != "test" || job.data.is_evaluated()) return;
  refuse(locations.of({"data.evaluate_on"}),
         fmt::format("data.evaluate_on is 'test', and data.test_fraction is 0: nothing is held out for it; set "
                     "data.test_fraction, for example to 0.15{}",
                     other));
}

std::map<std::string, std::string> origin_of_held_out(const Job& job) {
  if (job.data.test_fraction == 0) return {};
  return {{"data.test_fraction", fmt::format("{}", job.data.test_fraction)}};
}

}  // namespace plimsoll::job
