// Tests the page of a plan in a real browser. A probe script in a copy of the page examines the page's drawings, points
// at elements as a mouse and a keyboard would, and writes its findings into the document.
//
// Needs Chromium (Debian: chromium-headless-shell, the smallest, or chromium). Without it the tests are skipped; with
// PLIMSOLL_REQUIRE_BROWSER set they fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "plimsoll/bytes.h"
#include "report/plan_page_data.h"
#include "report/plan_page_testing.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::large_plan;
using testing::page_named;
using testing::page_of;
using testing::page_plan;
using Json = nlohmann::json;

std::filesystem::path find_browser() {
  const char* path = std::getenv("PATH");
  for (const char* name :
       {"chromium-headless-shell", "chromium-shell", "chromium", "chromium-browser", "google-chrome"}) {
    std::istringstream folders(path != nullptr ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      const auto candidate = std::filesystem::path(folder) / name;
      if (access(candidate.c_str(), X_OK) == 0) return candidate;
    }
  }
  return {};
}

std::string decoded(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      bytes += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

// Functions for every probe: the color of a canvas at a place, pointing at a place, the tooltip.
constexpr const char* kProbe = R"js(
const seen = {};
const tipText = () => document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText;
const canvas = (id) => document.querySelector('#' + id + ' canvas');
const pointAt = (id, x, y, kind = 'pointermove') => canvas(id).dispatchEvent(
    new PointerEvent(kind, {clientX: x, clientY: y, bubbles: true, button: 0}));
const middle = ({left, right, top, bottom}) => [(left + right) / 2, (top + bottom) / 2];
const colorAt = (id, x, y) => {
  const box = canvas(id).getBoundingClientRect(), ratio = canvas(id).width / box.width;
  return [...canvas(id).getContext('2d').getImageData(Math.round((x - box.left) * ratio), Math.round((y - box.top) * ratio), 1, 1).data];
};
const colorOf = (name) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)).concat(255);
};
const press = (target, key) => target.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
)js";

class PlanPageInBrowser : public ::testing::Test {
 protected:
  void SetUp() override {
    browser_ = find_browser();
    if (!browser_.empty()) return;
    const std::string message = "no Chromium on PATH (Debian: apt-get install chromium-headless-shell)";
    if (std::getenv("PLIMSOLL_REQUIRE_BROWSER") != nullptr) FAIL() << message;
    GTEST_SKIP() << message;
  }

  void TearDown() override {
    // The browser's helpers outlive it by a moment, and may write into a folder that is being removed.
    std::error_code error;
    for (int tries = 0; tries < 50 && !folder_.empty() && std::filesystem::exists(folder_, error); ++tries) {
      std::filesystem::remove_all(folder_, error);
      if (error) usleep(20000);
    }
  }

  // Opens `html`, runs `script` in it (it fills `seen`) and returns `seen`, with "fault": the errors of all scripts.
  Json look(std::string html, const std::string& script, const std::string& window = "1240,1600") {
    if (folder_.empty()) {
      std::string name = (std::filesystem::temp_directory_path() / "plan_page_XXXXXX").string();
      EXPECT_NE(mkdtemp(name.data()), nullptr);
      folder_ = name;
    }
    const std::string probe = std::string("<script>addEventListener('load', () => {") + kProbe + "try {" + script +
                              "} catch (error) { seen.probe = String(error.stack); }\n"
                              "seen.fault = document.getElementById('fault').textContent;\n"
                              "const report = document.createElement('div');\n"
                              "report.textContent = 'seen=' + encodeURIComponent(JSON.stringify(seen)) + '=end';\n"
                              "document.body.append(report);\n});</script></body>";
    html.replace(html.rfind("</body>"), 7, probe);
    std::ofstream(folder_ / "page.html", std::ios::binary) << html;
    const std::string command = "timeout 120 '" + browser_.string() +
                                "' --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars "
                                "--force-device-scale-factor=1 --virtual-time-budget=10000 --user-data-dir='" +
                                (folder_ / "profile").string() + "' --window-size=" + window + " --dump-dom 'file://" +
                                (folder_ / "page.html").string() + "' 2>'" + (folder_ / "log").string() + "'";
    std::string dom;
    FILE* pipe = popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::array<char, 65536> part;
    for (size_t got; pipe != nullptr && (got = fread(part.data(), 1, part.size(), pipe)) > 0;)
      dom.append(part.data(), got);
    if (pipe != nullptr) pclose(pipe);
    const size_t begin = dom.rfind("seen="), end = dom.rfind("=end");
    if (begin == std::string::npos || end == std::string::npos) {
      std::ostringstream log;
      log << std::ifstream(folder_ / "log").rdbuf();
      ADD_FAILURE() << "the browser brought nothing back:\n" << dom.substr(0, 2000) << log.str();
      return Json::object();
    }
    Json seen = Json::parse(decoded(dom.substr(begin + 5, end - begin - 5)));
    EXPECT_FALSE(seen.contains("probe")) << seen["probe"];
    return seen;
  }

 private:
  std::filesystem::path browser_, folder_;
};

TEST_F(PlanPageInBrowser, DrawsTimelineArenaAndPeak) {
  Plan plan = page_plan();
  plan.budget.device = plan.peak_bytes;  // the budget's line must not hide the marker
  // The peak's op holds 640 + 2 x 4096 persistent bytes (the parameters first), and activations at the top.
  const std::string constants = "const PEAK = " + std::to_string(plan.peak_bytes) + ";";
  const Json seen = look(to_html(page_of(plan)), constants + R"js(
    seen.drawn = document.documentElement.dataset.drawn;
    seen.buffers = document.documentElement.dataset.buffers;
    seen.peak = document.getElementById('peak-text').innerText;
    seen.requests = performance.getEntriesByType('resource').length;
    for (const label of ['w0', 'w1', 'h0', 'h1', 'x']) {
      seen[label] = colorAt('arena', ...middle(planPage.boxOf(planPage.indexOf(label)))).join();
    }
    const at = (op, bytes) => {
      const {x, y} = planPage.placeOf(op, bytes);
      return colorAt('timeline', x + 3, y).join();
    };
    seen.low = at(4, 4000);
    seen.high = at(4, 30000);
    seen.above = at(0, 45000);
    seen.marker = (() => { const {x, y} = planPage.placeOf(4, PEAK); return colorAt('timeline', x, y).join(); })();
    seen.parameter = colorOf('area-0').join();
    seen.activation = colorOf('area-3').join();
    seen.input = colorOf('area-4').join();
    seen.ink = colorOf('ink').join();
  )js");
  EXPECT_EQ(seen["fault"], "");
  EXPECT_EQ(seen["drawn"], "true");
  EXPECT_EQ(seen["buffers"], std::to_string(plan.trace.buffers.size() + 1));
  EXPECT_EQ(seen["peak"],
            "Peak: " + format_bytes(plan.peak_bytes) + " at op 5 of 10, make_d1 in layers.1, backward, segment micro.");
  EXPECT_EQ(seen["requests"], 0);
  EXPECT_EQ(seen["w0"], seen["parameter"]);
  EXPECT_EQ(seen["w1"], seen["parameter"]);
  EXPECT_EQ(seen["h0"], seen["activation"]);
  EXPECT_EQ(seen["h1"], seen["activation"]);
  EXPECT_EQ(seen["x"], seen["input"]);
  EXPECT_EQ(seen["low"], seen["parameter"]);
  EXPECT_EQ(seen["high"], seen["activation"]);
  EXPECT_EQ(seen["above"], "0,0,0,0");
  EXPECT_EQ(seen["marker"], seen["ink"]);
}

TEST_F(PlanPageInBrowser, HoverTellsOfBuffersAndOps) {
  const Plan plan = page_plan();
  const Json seen = look(to_html(page_of(plan)), R"js(
    seen.before = tipText();
    pointAt('arena', ...middle(planPage.boxOf(planPage.indexOf('h0'))));
    seen.buffer = tipText();
    seen.row = document.querySelector('#residents tr.on')?.innerText || '';
    pointAt('arena', ...middle(planPage.boxOf(planPage.indexOf('w1'))));
    seen.kept = tipText();
    pointAt('arena', ...middle(planPage.boxOf(planPage.indexOf('scratch of make_d1'))));
    seen.scratch = tipText();
    pointAt('arena', 0, 0, 'pointerleave');
    seen.left = tipText();
    const {x, y} = planPage.placeOf(4, 1000);
    pointAt('timeline', x, y);
    seen.op = tipText();
  )js");
  EXPECT_EQ(seen["fault"], "");
  EXPECT_EQ(seen["before"], "");
  const std::string buffer = seen["buffer"];
  for (const char* part :
       {"h0", "activation · layers.0", "20.0 KiB (20,480 bytes)", "op 1: make_h0 in layers.0 (forward)",
        "op 7: make_d0 in layers.0 (backward)", "7 ops, 70.0 %"})
    EXPECT_THAT(buffer, HasSubstr(part));
  EXPECT_THAT(std::string(seen["row"]), HasSubstr("h0"));
  EXPECT_THAT(std::string(seen["kept"]), HasSubstr("kept from step to step"));
  EXPECT_THAT(std::string(seen["scratch"]), HasSubstr("workspace · layers.1"));
  EXPECT_EQ(seen["left"], "");
  const std::string op = seen["op"];
  for (const char* part :
       {"make_d1", "layers.1 · backward, micro · op 5 of 10", "parameters\n8.00 KiB", "workspace\n1.00 KiB"})
    EXPECT_THAT(op, HasSubstr(part));
}

TEST_F(PlanPageInBrowser, ExchangesHaveALaneWithTheirBytesOnHover) {
  Plan plan = page_plan();
  plan.trace.ops[5].name = "plimsoll::reduce_scatter_";
  plan.trace.ops[5].link_bytes = 3 * KiB;
  plan.trace.ops[8].link_bytes = 2 * KiB;
  PlanPage page = page_of(plan);
  page.op_seconds.assign(10, 2e-3);
  const Json seen = look(to_html(page), R"js(
    const lane = (index) => planPage.exchangePlace(index), at = (x, y) => colorAt('timeline', x, y).join();
    seen.first = at(lane(0).x, lane(0).y);
    seen.second = at(lane(1).x, lane(1).y);
    seen.between = at((lane(0).x + lane(1).x) / 2, lane(0).y);
    pointAt('timeline', lane(0).x, lane(0).y);
    seen.tip = tipText();
    pointAt('timeline', (lane(0).x + lane(1).x) / 2, lane(0).y);
    seen.other = tipText();
    const {x, y} = planPage.placeOf(8, 1000);
    pointAt('timeline', x, y);
    seen.op = tipText();
    document.querySelector('[data-axis="time"]').click();
    pointAt('timeline', lane(0).x, lane(0).y);
    seen.time = tipText();
    seen.exchange = colorOf('exchange').join();
    seen.legend = document.querySelector('.legend').innerText;
    seen.grid = colorOf('grid').join();
  )js");
  EXPECT_EQ(seen["fault"], "");
  EXPECT_EQ(seen["first"], seen["exchange"]);
  EXPECT_EQ(seen["second"], seen["exchange"]);
  EXPECT_EQ(seen["between"], seen["grid"]);
  EXPECT_THAT(std::string(seen["legend"]), HasSubstr("exchange between ranks (2 of the ops, 5.00 KiB sent)"));
  const std::string tip = seen["tip"];
  for (const char* part : {"plimsoll::reduce_scatter_", "layers.1 · backward, micro · op 6 of 10",
                           "sent to other ranks\n3.00 KiB (3,072 bytes)"})
    EXPECT_THAT(tip, HasSubstr(part));
  EXPECT_THAT(std::string(seen["other"]), ::testing::Not(HasSubstr("sent to")));
  EXPECT_THAT(std::string(seen["op"]), HasSubstr("sent to other ranks\n2.00 KiB"));
  EXPECT_THAT(std::string(seen["time"]), HasSubstr("predicted time\n2 ms"));
}

TEST_F(PlanPageInBrowser, WorksFromTheKeyboard) {
  const Plan plan = page_plan();
  PlanPage page = page_of(plan);
  page.frontier = {{60000, 59000, 0.25, "nothing recomputed", true},
                   {40000, 39000, 0.5, "all recomputed", true},
                   {20000, 30000, 0, "", false}};
  const Json seen = look(to_html(page), R"js(
    const slider = canvas('timeline');
    slider.focus();
    press(slider, 'ArrowLeft');
    seen.now = slider.getAttribute('aria-valuenow');
    seen.value = slider.getAttribute('aria-valuetext');
    seen.tip = tipText();
    press(slider, 'End');
    seen.end = slider.getAttribute('aria-valuenow');
    press(slider, 'Escape');
    seen.gone = tipText();
    const button = document.querySelector('#residents tbody button');
    button.focus();
    seen.marked = document.querySelector('#residents tr.on').innerText;
    button.click();
    seen.shown = tipText();
    button.blur();
    const points = document.querySelectorAll('#frontier g[tabindex]');
    seen.points = points.length;
    points[0].focus();
    seen.least = tipText();
    points[2].focus();
    seen.most = tipText();
  )js");
  EXPECT_EQ(seen["fault"], "");
  EXPECT_EQ(seen["now"], "4");
  EXPECT_THAT(std::string(seen["value"]), HasSubstr("op 4: make_y1 in layers.1 (forward), "));
  EXPECT_THAT(std::string(seen["tip"]), HasSubstr("make_y1"));
  EXPECT_EQ(seen["end"], "10");
  EXPECT_EQ(seen["gone"], "");
  EXPECT_THAT(std::string(seen["marked"]), HasSubstr("h0"));
  EXPECT_THAT(std::string(seen["shown"]), HasSubstr("20,480 bytes"));
  EXPECT_EQ(seen["points"], 3);
  EXPECT_THAT(std::string(seen["least"]), HasSubstr("does not fit"));
  EXPECT_THAT(std::string(seen["most"]), HasSubstr("250 ms a step"));
  EXPECT_THAT(std::string(seen["most"]), HasSubstr("nothing recomputed"));
}

TEST_F(PlanPageInBrowser, ZoomsAndTellsTime) {
  const Plan plan = page_plan();
  PlanPage page = page_of(plan);
  page.op_seconds.assign(10, 0.001);
  page.op_seconds[9] = 0.011;
  const Json seen = look(to_html(page), R"js(
    const pressed = () => [...document.querySelectorAll('.group [aria-pressed=true]')].map((b) => b.innerText).join();
    const shown = () => planPage.view.from + '-' + planPage.view.to;
    seen.start = [pressed(), shown()];
    document.querySelector('[data-segment="1"]').click();
    seen.update = [pressed(), shown()];
    document.querySelector('[data-axis=time]').click();
    seen.time = [pressed(), shown()];
    canvas('arena').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}));
    seen.whole = [pressed(), shown()];
    pointAt('arena', ...middle(planPage.boxOf(planPage.indexOf('g0'))));
    seen.life = tipText();
    document.querySelector('[data-axis=ops]').click();
    const from = planPage.placeOf(2, 0), to = planPage.placeOf(6, 0);
    pointAt('timeline', from.x, from.y - 50, 'pointerdown');
    pointAt('timeline', to.x, to.y - 50);
    pointAt('timeline', to.x, to.y - 50, 'pointerup');
    seen.dragged = [Math.round(planPage.view.from * 100), Math.round(planPage.view.to * 100)];
  )js");
  EXPECT_EQ(seen["fault"], "");
  EXPECT_EQ(seen["start"], Json({"whole trace,by op", "0-10"}));
  EXPECT_EQ(seen["update"], Json({"update,by op", "8-10"}));
  EXPECT_EQ(seen["time"], Json({"update,by predicted time", "8000000-20000000"}));
  EXPECT_EQ(seen["whole"], Json({"whole trace,by predicted time", "0-20000000"}));
  EXPECT_THAT(std::string(seen["life"]), HasSubstr("3 ops, 65.0 % of the time"));
  EXPECT_EQ(seen["dragged"], Json({250, 650}));
}

TEST_F(PlanPageInBrowser, HostileNamesRunNothing) {
  const std::string hostile = "</script><script>window.taken = 1</script><img src=x onerror='window.taken = 2'>\"&amp;";
  const Json seen = look(page_named(hostile), R"js(
    pointAt('arena', ...middle(planPage.boxOf(0)));
    seen.tip = document.querySelector('#tip b').textContent;
    document.querySelector('#frontier g[tabindex]').focus();
    seen.heading = document.querySelector('h1').textContent;
    seen.title = document.title;
    seen.images = document.images.length;
    seen.taken = String(window.taken);
  )js");
  EXPECT_EQ(seen["fault"], "");
  EXPECT_EQ(seen["taken"], "undefined");
  EXPECT_EQ(seen["images"], 0);
  EXPECT_EQ(seen["heading"], hostile);
  EXPECT_EQ(seen["title"], hostile + ": plan");
  EXPECT_EQ(seen["tip"], hostile);
}

TEST_F(PlanPageInBrowser, FitsANarrowWindowAndNoOps) {
  const Plan plan = page_plan();
  PlanPage page = page_of(plan);
  page.title = std::string(200, 'm');
  page.frontier = {{1000, 1000, 1, std::string(200, 'm'), true}};
  const char* script = R"js(
    seen.width = document.documentElement.scrollWidth <= innerWidth;
    seen.drawn = document.documentElement.dataset.drawn;
    seen.inner = innerWidth;
  )js";
  Json seen = look(to_html(page), script, "400,800");
  EXPECT_EQ(seen["fault"], "");
  EXPECT_LT(seen["inner"], 640);
  EXPECT_EQ(seen["width"], true);
  const Plan none;
  seen = look(to_html(page_of(none)), script);
  EXPECT_EQ(seen["fault"], "");
  EXPECT_EQ(seen["drawn"], "true");
}

// Phones, and a tablet: everything is on the page, with all elements open that can be opened, and nothing is outside of
// it. Each part is examined separately: a clipped part does not widen the document.
TEST_F(PlanPageInBrowser, APhoneShowsItWhole) {
  Plan plan = page_plan();
  plan.budget.device = plan.peak_bytes + plan.peak_bytes / 3;
  plan.reasons = {{"recompute: mm in layers.*.mlp.up", "16 values, 1.25 GiB, unused for 57 % of the step's ops"}};
  plan.trace.segments.clear();  // the maximum number, one for each op
  constexpr auto kLast = static_cast<int32_t>(SegmentKind::evaluate);
  for (int32_t at = 0; at < kLast; ++at) plan.trace.segments.push_back({static_cast<SegmentKind>(at), at, at + 1});
  plan.trace.segments.push_back({SegmentKind::evaluate, kLast, static_cast<int32_t>(plan.trace.ops.size())});
  PlanPage page = page_of(plan);
  page.op_seconds.assign(plan.trace.ops.size(), 0.001);
  page.facts = {{"predicted by", "NVIDIA GeForce RTX 3060 12GB (catalogue)"}, {"micro batch", "16 x 65536 tokens"}};
  for (int64_t i = 1; i <= 13; ++i)
    page.frontier.push_back({i * 1'000'000'000, i * 999'000'000, 1.0 / static_cast<double>(i),
                             "bf16-mixed, micro batch 8 x 2, 16.8 % recomputed", true});
  for (const char* window : {"360,800", "420,900", "768,1024"}) {
    const Json seen = look(to_html(page), R"js(
      for (const each of document.querySelectorAll('details')) each.open = true;
      seen.window = innerWidth;
      seen.width = document.documentElement.scrollWidth;
      seen.beside = [...document.querySelectorAll('body *')].filter((each) => {
        const box = each.getBoundingClientRect();
        return box.width > 0 && getComputedStyle(each).position !== 'fixed' && (box.right > innerWidth + 0.5 || box.left < -0.5);
      }).map((each) => each.tagName + ' ' + each.id + ' ' + each.className + ' ' + each.textContent.slice(0, 40));
      seen.buttons = document.querySelectorAll('#zoom button').length;
    )js",
                           window);
    EXPECT_EQ(seen["fault"], "");
    EXPECT_EQ(seen["window"], std::stoi(window));
    EXPECT_LE(seen["width"], seen["window"]);
    EXPECT_EQ(seen["beside"], Json::array()) << window;
    EXPECT_EQ(seen["buttons"], plan.trace.segments.size() + 1);
  }
}

TEST_F(PlanPageInBrowser, DrawsALargePlan) {
  const Plan plan = large_plan(30000, 40000);
  const Json seen = look(to_html(page_of(plan)), R"js(
    seen.buffers = document.documentElement.dataset.buffers;
    pointAt('arena', ...middle(planPage.boxOf(0)));
    seen.tip = tipText();
  )js");
  EXPECT_EQ(seen["fault"], "");
  EXPECT_EQ(seen["buffers"], "40000");
  EXPECT_THAT(std::string(seen["tip"]), HasSubstr("made by"));
}

// The other tests depend on the page's report of a failing script.
TEST_F(PlanPageInBrowser, TellsOfAFault) {
  const Plan plan = page_plan();
  std::string html = to_html(page_of(plan));
  const std::string open = "id=\"plan-data\">";
  html.insert(html.find(open) + open.size(), "{");
  const Json seen = look(html, "seen.hidden = document.getElementById('fault').hidden;");
  EXPECT_EQ(seen["hidden"], false);
  EXPECT_THAT(std::string(seen["fault"]), HasSubstr("The charts could not be drawn: "));
}

}  // namespace
}  // namespace plimsoll
