#include "plimsoll/plan_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>
#include <random>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"
#include "report/plan_page_data.h"
#include "report/plan_page_testing.h"

namespace plimsoll {
namespace {

using testing::data_in;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::large_plan;
using ::testing::Not;
using testing::page_named;
using testing::page_of;
using testing::page_plan;
using Json = nlohmann::json;

std::vector<int64_t> sums(const Json& deltas) {
  std::vector<int64_t> values = deltas.get<std::vector<int64_t>>();
  std::partial_sum(values.begin(), values.end(), values.begin());
  return values;
}

// Live bytes at `op` counted the slow way: buffer by buffer.
int64_t live_bytes(const Plan& plan, int32_t op) {
  const auto lifetimes = lifetimes_of(plan.trace);
  int64_t sum = plan.breakdown.context + placed_bytes(plan.trace.ops[op].workspace_bytes);
  for (size_t b = 0; b < plan.trace.buffers.size(); ++b)
    if (lifetimes[b].live_at(op)) sum += placed_bytes(plan.trace.buffers[b].bytes);
  return sum;
}

int64_t total_of(const Json& points, size_t point) {
  int64_t sum = 0;
  for (const Json& area : points["areas"]) sum += sums(area)[point] * kArenaAlignment;
  return sum;
}

// Returns the number of occurrences of `part` in `whole`.
size_t count_of(const std::string& whole, const std::string& part) {
  size_t count = 0;
  for (size_t at = whole.find(part); at != std::string::npos; at = whole.find(part, at + 1)) ++count;
  return count;
}

TEST(PlanPage, NeedsNothingElse) {
  const Plan plan = page_plan();
  std::string html = to_html(page_of(plan));
  // The one address is the name of SVG's namespace, which nothing loads.
  const std::string name = "http://www.w3.org/2000/svg";
  for (size_t at = html.find(name); at != std::string::npos; at = html.find(name)) html.erase(at, name.size());
  for (const char* loads :
       {"http:", "https:", " src=", " href=", "url(", "@import", "fetch(", "XMLHttpRequest", "import("})
    EXPECT_THAT(html, Not(HasSubstr(loads)));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_EQ(html.rfind("<!DOCTYPE html>", 0), 0u);
}

TEST(PlanPage, SaysWhetherItFits) {
  Plan plan = page_plan();
  plan.peak_bytes = 6 * MiB;
  EXPECT_THAT(to_html(page_of(plan)), HasSubstr("No budget is set"));
  plan.budget.device = 8 * MiB;
  EXPECT_THAT(to_html(page_of(plan)),
              HasSubstr("Fits: <span title=\"6,291,456 bytes\">6.00 MiB</span> of <span title=\"8,388,608 bytes\">"));
  plan.budget.device = 4 * MiB;
  plan.fits = false;
  PlanPage page = page_of(plan);
  page.minimum_budget_bytes = 5 * MiB;
  const std::string html = to_html(page);
  EXPECT_THAT(html, HasSubstr("Does not fit: "));
  EXPECT_THAT(html, HasSubstr("smallest budget that fits is <span title=\"5,242,880 bytes\">5.00 MiB</span>"));
  EXPECT_THAT(html, Not(HasSubstr("Fits: ")));
}

TEST(PlanPage, BreakdownHasEveryPartWithItsShare) {
  Plan plan = page_plan();
  plan.breakdown = {.parameters = 400,
                    .gradients = 0,
                    .optimizer_state = 100,
                    .activations = 250,
                    .inputs = 50,
                    .workspace = 60,
                    .context = 40,
                    .fragmentation = 100};
  plan.peak_bytes = 1000;
  const std::string html = to_html(page_of(plan));
  EXPECT_THAT(html,
              HasSubstr("parameters 400 B, optimizer state 100 B, activations 250 B, inputs 50 B, workspace 60 B, "
                        "context 40 B, fragmentation 100 B"));
  for (const char* share : {"40.0 %", "25.0 %", "6.0 %", "4.0 %", "100.0 %"}) EXPECT_THAT(html, HasSubstr(share));
}

TEST(PlanPage, PeakIsToldByOpModuleAndSegment) {
  const Plan plan = page_plan();
  ASSERT_EQ(plan.peak_op, 4);
  EXPECT_THAT(to_html(page_of(plan)), HasSubstr("at op 5 of 10, make_d1 in layers.1, backward, segment micro."));
}

TEST(PlanPage, ResidentsAreTheLargestAtThePeak) {
  const Plan plan = page_plan();
  const PageBuffers buffers = page_buffers(plan, 5);
  const std::vector<Resident> expected = largest_at_peak(plan, 5);
  ASSERT_EQ(buffers.residents.size(), expected.size());
  int64_t named = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const PageBuffer& buffer = buffers.drawn[buffers.residents[i]];
    EXPECT_EQ(buffer.label, expected[i].label);
    EXPECT_EQ(buffer.bytes, expected[i].bytes);
    EXPECT_EQ(buffer.role, expected[i].role);
    named += placed_bytes(buffer.bytes);
  }
  EXPECT_EQ(named + buffers.residents_left_bytes, live_bytes(plan, plan.peak_op));
}

TEST(PlanPage, TimelineIsWhatLivesAtEachOp) {
  const Plan plan = page_plan(960);
  const Json data = data_in(to_html(page_of(plan)));
  EXPECT_THAT(sums(data["points"]["op"]), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  for (int32_t op = 0; op < 10; ++op) EXPECT_EQ(total_of(data["points"], op), live_bytes(plan, op)) << "op " << op;
  EXPECT_EQ(total_of(data["points"], plan.peak_op) + plan.breakdown.fragmentation, plan.peak_bytes);
  EXPECT_EQ(sums(data["points"]["areas"][page_area(Role::workspace)])[4], 16);  // 1000 bytes, rounded up to 16 x 64
}

TEST(PlanPage, OfManyOpsEachRunShowsItsFullest) {
  const Plan plan = large_plan(1000, 3000);
  PlanPage page = page_of(plan);
  const Json data = page_data(page, page_buffers(plan, 25), 64);
  const std::vector<int64_t> shown = sums(data["points"]["op"]);
  ASSERT_EQ(shown.size(), 64u);
  for (size_t run = 0; run < 64; ++run) {
    int64_t fullest = 0;
    for (int32_t op = 0; op < 1000; ++op)
      if (op * 64 / 1000 == static_cast<int>(run)) fullest = std::max(fullest, live_bytes(plan, op));
    if (shown[run] == plan.peak_op) continue;  // the peak is shown whatever the others are
    EXPECT_EQ(shown[run] * 64 / 1000, static_cast<int64_t>(run));
    EXPECT_EQ(total_of(data["points"], run), fullest);
  }
  EXPECT_THAT(shown, ::testing::Contains(plan.peak_op));
}

TEST(PlanPage, BuffersComeBackFromTheirArrays) {
  const Plan plan = page_plan();
  const Json data = data_in(to_html(page_of(plan)));
  const Json& b = data["buffers"];
  const auto lifetimes = lifetimes_of(plan.trace);
  const std::vector<int64_t> index = sums(data["ops"]["index"]);
  size_t found = 0;
  for (size_t i = 0; i < b["label"].size(); ++i) {
    const std::string label = data["strings"][b["label"][i].get<size_t>()];
    for (size_t id = 0; id < plan.trace.buffers.size(); ++id) {
      if (plan.trace.buffers[id].label != label) continue;
      ++found;
      EXPECT_EQ(b["bytes"][i], plan.trace.buffers[id].bytes);
      EXPECT_EQ(b["offset"][i].get<int64_t>() * kArenaAlignment, plan.offsets[id]);
      EXPECT_EQ(b["birth"][i], lifetimes[id].birth);
      EXPECT_EQ(b["length"][i], lifetimes[id].death - lifetimes[id].birth);
      EXPECT_EQ(b["role"][i], static_cast<int>(plan.trace.buffers[id].role));
      EXPECT_EQ(b["flags"][i], plan.trace.buffers[id].persistent ? 1 : 0);
      EXPECT_THAT(index, ::testing::Contains(lifetimes[id].birth));
      EXPECT_THAT(index, ::testing::Contains(lifetimes[id].death));
    }
  }
  EXPECT_EQ(found, plan.trace.buffers.size());
  EXPECT_EQ(b["label"].size(), plan.trace.buffers.size() + 1);  // and the scratch of make_d1
}

TEST(PlanPage, TheSmallestAreLeftOutAndCounted) {
  const Plan plan = large_plan(100, 500);
  const PageBuffers buffers = page_buffers(plan, 25, 40);
  // A resident of the peak is drawn even if larger ones have taken the room.
  EXPECT_EQ(buffers.residents.size(), 25u);
  EXPECT_EQ(buffers.drawn.size() + buffers.left_out, 500u);
  EXPECT_LE(buffers.drawn.size(), 40u + 25u);
  EXPECT_GT(buffers.left_out_largest, 0);
  for (size_t i = 0; i < 40; ++i) EXPECT_GE(buffers.drawn[i].bytes, buffers.left_out_largest);
  for (size_t resident : buffers.residents) EXPECT_LT(resident, buffers.drawn.size());
}

TEST(PlanPage, OfAnEightyLayerModelStaysSmall) {
  const Plan plan = large_plan(60000, 90000);
  PlanPage page = page_of(plan);
  std::mt19937 random(1);
  for (size_t i = 0; i < plan.trace.ops.size(); ++i) page.op_seconds.push_back(1e-6 * (random() % 5000));
  const std::string html = to_html(page);
  EXPECT_LT(html.size(), size_t{5} << 20);
  EXPECT_THAT(html, HasSubstr("40,000 buffers are drawn; 50,000 smaller ones"));
}

TEST(PlanPage, TimesAreStartsOfOps) {
  const Plan plan = page_plan();
  PlanPage page = page_of(plan);
  EXPECT_FALSE(data_in(to_html(page))["ops"].contains("start"));
  EXPECT_THAT(to_html(page), Not(HasSubstr("by predicted time</button>")));
  page.op_seconds = {
      1e-3, 2e-3, std::numeric_limits<double>::quiet_NaN(), -1, std::numeric_limits<double>::infinity(), 0, 1e300, 1e-3,
      0,    1e-9};
  const std::string html = to_html(page);
  EXPECT_THAT(html, HasSubstr("by predicted time</button>"));
  // Ops whose time rounds to 0 take no time; the last entry is the end of the trace.
  EXPECT_THAT(sums(data_in(html)["ops"]["start"]),
              ElementsAre(0, 1000000, 3000000, 3000000, 3000000, 3000000, 3000000, 3000000, 4000000, 4000000, 4000001));
}

TEST(PlanPage, ExchangesHaveALaneAndALegend) {
  Plan plan = page_plan();
  const std::string without = to_html(page_of(plan));
  EXPECT_THAT(without, Not(HasSubstr("exchange between ranks")));
  EXPECT_THAT(without, Not(HasSubstr("strip below the phases")));
  EXPECT_TRUE(data_in(without)["exchanges"]["op"].empty());
  plan.trace.ops[5].link_bytes = 3 * KiB;
  plan.trace.ops[8].link_bytes = 2 * KiB;
  const std::string html = to_html(page_of(plan));
  EXPECT_THAT(html,
              HasSubstr("exchange between ranks (2 of the ops, <span title=\"5,120 bytes\">5.00 KiB</span> sent)"));
  EXPECT_THAT(html, HasSubstr("The strip below the phases shows the exchanges between ranks."));
  const Json exchanges = data_in(html)["exchanges"];
  EXPECT_THAT(sums(exchanges["op"]), ElementsAre(5, 8));
  EXPECT_EQ(exchanges["length"], Json({1, 1}));
  EXPECT_EQ(exchanges["bytes"], Json({3 * KiB, 2 * KiB}));
}

// The rectangle of an exchange that overlaps with other ops continues to the op that waits for it.
TEST(PlanPage, AnExchangeBesideOthersLastsUntilItIsWaitedFor) {
  Trace trace;
  const auto add = [&](CopyStage stage, BufferId target, int64_t bytes) {
    Op& op = trace.ops.emplace_back();
    op.exchange = stage;
    op.link_bytes = bytes;
    const View view{target, DType::uint8, 0, {64}, {1}};
    op.arguments = {{Argument::Kind::tensor, stage != CopyStage::wait, {view}}};
  };
  add(CopyStage::start, 0, 100);
  add(CopyStage::start, 1, 200);
  add(CopyStage::none, 2, 0);
  add(CopyStage::wait, 0, 0);
  add(CopyStage::none, 2, 300);
  add(CopyStage::wait, 1, 0);
  const auto spans = [&](size_t max_drawn) {
    std::vector<std::array<int64_t, 3>> all;
    for (const PageExchange& each : page_exchanges(trace, max_drawn)) all.push_back({each.begin, each.end, each.bytes});
    return all;
  };
  using Span = std::array<int64_t, 3>;
  EXPECT_THAT(spans(9), ElementsAre(Span{0, 4, 100}, Span{1, 6, 200}, Span{4, 5, 300}));
  EXPECT_THAT(spans(2), ElementsAre(Span{1, 6, 200}, Span{4, 5, 300})) << "the largest";
}

TEST(PlanPage, FrontierIsSortedAndSaysWhatIsUnknown) {
  const Plan plan = page_plan();
  PlanPage page = page_of(plan);
  EXPECT_THAT(to_html(page), Not(HasSubstr("id=\"frontier\"")));
  page.frontier = {{4096, 4000, 0.25, "nothing recomputed", true},
                   {1024, 2000, std::numeric_limits<double>::quiet_NaN(), "", false},
                   {2048, 2048, 0.0015, "all recomputed", true}};
  const std::string html = to_html(page);
  const size_t first = html.find("does not fit</td>"), second = html.find("1.5 ms</td>"),
               third = html.find("250 ms</td>");
  ASSERT_NE(third, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_EQ(data_in(html)["frontier"][1][2], 0);
}

TEST(PlanPage, HostileNamesStayText) {
  const std::string hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&<!--";
  const std::string html = page_named(hostile), tame = to_html(page_of(page_plan()));
  EXPECT_EQ(count_of(html, "<script"), count_of(tame, "<script"));
  EXPECT_EQ(count_of(html, "</script"), count_of(tame, "</script"));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("<!--")));
  EXPECT_THAT(html, HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)"));
  const Json data = data_in(html);
  EXPECT_EQ(data["strings"][0], hostile);
}

TEST(PlanPage, AnyBytesAndAnyLengthOfNamesAreTaken) {
  Plan plan = page_plan();
  for (size_t b = 0; b < plan.trace.buffers.size(); ++b)
    plan.trace.buffers[b].label = std::string("\xff\xc3 \x1b[2J\n\0 ", 10) + std::string(1 << 20, 'a' + b % 26);
  const std::string html = to_html(page_of(plan));
  EXPECT_LT(html.size(), size_t{1} << 18);
  const std::string label = data_in(html)["strings"].back();
  EXPECT_LT(label.size(), 400u);
  EXPECT_THAT(html, Not(HasSubstr("\x1b")));
}

TEST(PlanPage, APlanOfNothingIsAPage) {
  const Plan plan;
  const std::string html = to_html(page_of(plan));
  EXPECT_THAT(html, Not(HasSubstr("id=\"timeline\"")));
  EXPECT_EQ(data_in(html)["ops"]["total"], 0);
}

TEST(PlanPage, IsTheSameEachTime) {
  const Plan plan = large_plan(300, 900);
  EXPECT_EQ(to_html(page_of(plan)), to_html(page_of(plan)));
}

TEST(PlanPage, RefusesWhatIsNoPlan) {
  EXPECT_THROW(to_html(PlanPage{}), InternalError);
  Plan plan = page_plan();
  PlanPage page = page_of(plan);
  page.op_seconds = {1.0};
  EXPECT_THROW(to_html(page), InternalError);
  page.op_seconds.clear();
  plan.peak_op = 10;
  EXPECT_THROW(to_html(page), InternalError);
  plan.peak_op = 0;
  plan.offsets.pop_back();
  EXPECT_THROW(to_html(page), InternalError);
}

}  // namespace
}  // namespace plimsoll
