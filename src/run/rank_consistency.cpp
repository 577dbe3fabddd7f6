#include "run/rank_consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {

void require_recorded_ranks(const RankOptions& recorded, const Exchange* exchange) {
  if (recorded.count == 1 && !exchange) return;
  if (!exchange)
    throw UserError(
        fmt::format("the step is of {} ranks, which run it together: TrainingOptions::exchange", recorded.count));
  if (recorded.count != exchange->size() || recorded.rank != exchange->rank())
    throw UserError(fmt::format("the step was recorded as rank {} of {}; this is rank {} of {}", recorded.rank,
                                recorded.count, exchange->rank(), exchange->size()));
}

bool merge_workspaces(Exchange& exchange, MeasuredWorkspace& workspace, bool found_more) {
  for (const std::string& each : exchange.gather_text(workspace.text())) found_more |= workspace.merge(each);
  // A rank that knew everything has to plan again together with the others, because the exchanges of all plans must
  // agree.
  return std::ranges::any_of(exchange.gather_text(found_more ? "1" : "0"),
                             [](const std::string& each) { return each == "1"; });
}

void require_same_exchanges(Exchange& exchange, const Trace& trace) {
  const std::vector<std::string> orders = exchange.gather_text(exchange_order(trace));
  for (size_t r = 1; r < orders.size(); ++r)
    if (orders[r] != orders[0])
      throw UserError(fmt::format("rank {} plans other exchanges than rank 0: every rank needs the same job, budget, "
                                  "device and number of threads",
                                  r),
                      UserError::Kind::failure);
}

SummedLosses sum_losses(Exchange& exchange, const std::vector<double>& own, bool found_more) {
  std::string told(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double));
  told += found_more ? '1' : '0';
  SummedLosses result;
  std::vector<std::vector<double>> all;
  for (const std::string& text : exchange.gather_text(told)) {
    check(text.size() == told.size(), "a rank has another number of micro batches");
    std::vector<double>& losses = all.emplace_back(own.size());
    std::memcpy(losses.data(), text.data(), text.size() - 1);
    result.found_more |= text.back() == '1';
  }
  for (size_t i = 0; i < own.size(); ++i)
    for (const std::vector<double>& losses : all) result.sum += losses[i];
  return result;
}

std::string exchange_order(const Trace& trace) {
  std::string all;
  int64_t exchanges = 0;
  for (const Segment& segment : trace.segments) {
    all += std::string(name_of(segment.kind)) + "\n";
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = trace.ops[i];
      if (op.link_bytes == 0) continue;
      ++exchanges;
      all += op.name;
      for_each_view(
          op, [&](const View& view, bool) { all += fmt::format(" {}:{}", name_of(view.dtype), view.elements()); });
      all += "\n";
    }
  }
  return fmt::format("{} exchanges, {:016x}", exchanges, hash_bytes(all));
}

}  // namespace plimsoll
