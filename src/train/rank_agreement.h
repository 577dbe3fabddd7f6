// Declares decisions that all ranks of a run make together, so that all do the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/exchange.h"
#include "plimsoll/train_job.h"

namespace plimsoll {

/// The decisions of a run. Without an exchange the run has one rank, and every function answers for that rank. All
/// ranks call the same functions in the same order. Each function throws as Exchange does if another rank fails.
class RankAgreement {
 public:
  explicit RankAgreement(Exchange* exchange) : exchange_(exchange) {}

  int64_t ranks() const { return exchange_ ? exchange_->size() : 1; }
  int64_t rank() const { return exchange_ ? exchange_->rank() : 0; }
  /// Returns true if this rank writes the files of the run.
  bool leads() const { return rank() == 0; }

  /// Throws UserError (usage) on all ranks if one has another job; it names the rank, the key and both values.
  void require_same_job(const Job& job) const;

  /// Sets the target's budgets to the smallest of any rank. Says so in its reason if the job states a budget (`stated`)
  /// and the budgets differ.
  void agree_on_min_budget(PlanTarget& target, bool stated) const;

  /// Returns true if all ranks planned with the same choices and exchange the same tensors in the same order.
  bool same_choices(const PlannedJob& planned) const;
  /// Returns `job` with the choices of the first rank. Call it on all ranks if same_choices() was false.
  Job first_rank_choices(const Job& job, const PlannedJob& planned) const;

  /// Returns the steps that the first rank profiles, for all ranks; nullopt: none. Only the first rank has a file.
  std::optional<ProfileOptions> first_rank_profile(const ProfileOptions& own) const;

  /// Returns the text of the first rank, of any length, on all ranks; `own` of other ranks is ignored.
  std::string of_first_rank(const std::string& own) const;

  /// Returns true if `own` is true on any rank.
  bool any(bool own) const;

  /// Result of between_steps().
  struct BetweenSteps {
    bool stop = false;                ///< true if a rank was asked to stop
    std::vector<RankProgress> ranks;  ///< by rank; empty: there is one
  };
  /// Combines a rank's own `stop` and figures with those of all others, by one exchange. `own.host` and `own.pid` are
  /// filled in.
  BetweenSteps between_steps(bool stop, const RankProgress& own) const;

  /// Returns `count` numbers, taken from all ranks in turn: number i is number i / ranks of rank i % ranks.
  std::vector<double> in_turn(const std::vector<double>& own, int64_t count) const;

  /// Returns the use of each rank, by rank; empty if there is one rank.
  std::vector<TrainReport::RankUse> uses(const TrainReport::RankUse& own) const;

  /// Replaces each sum by that of all ranks, added in rank order. Sums are float64; a rank may lack some.
  void add_up(std::map<std::string, at::Tensor>& sums) const;

 private:
  std::vector<std::string> gather(std::string_view text) const;
  // Returns `own` of each rank; Values has no pointers.
  template <typename Values>
  std::vector<Values> gather_values(const Values& own) const;

  Exchange* exchange_;
};

}  // namespace plimsoll
