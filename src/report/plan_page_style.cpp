// Sets the colors by role: Paul Tol's "bright" scheme, which stays distinct with every common kind of color blindness.
#include "report/plan_page_assets.h"

namespace plimsoll {

const char* const kPlanPageStyle = R"css(
:root {
  color-scheme: light dark;
  --back: #ffffff; --panel: #ffffff; --ink: #16191d; --soft: #59616b; --faint: #8a929c; --line: #dfe3e8;
  --grid: #eceff2; --hover: #f3f5f8; --good: #1b7a3d; --bad: #b3261e; --accent: #b3261e;
  --area-0: #4477aa; --area-1: #66ccee; --area-2: #ccbb44; --area-3: #2f9a5c; --area-4: #aa3377; --area-5: #ee6677;
  --area-6: #9aa1a9; --area-7: #d4d8dd;
  --forward: #e3e8ee; --backward: #c9d1da; --update: #b0bac5; --again: #332288; --exchange: #cc6611;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171a; --panel: #14171a; --ink: #e8eaed; --soft: #a3abb5; --faint: #78818b; --line: #30363d;
    --grid: #22272c; --hover: #1f2429; --good: #63c587; --bad: #ff8a80; --accent: #ff8a80;
    --area-0: #5b8fc4; --area-1: #66ccee; --area-2: #ccbb44; --area-3: #3aa76a; --area-4: #c2558f; --area-5: #ee6677;
    --area-6: #7d858e; --area-7: #3a4148;
    --forward: #272d33; --backward: #3a424b; --update: #4d5762; --again: #a79bf2; --exchange: #f0a050;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 36px 28px 48px; max-width: 1180px; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif;
}
h1 { margin: 0; font-size: 26px; line-height: 1.25; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { margin: 0; font-size: 17px; font-weight: 650; }
p { margin: 0; }
.subtitle { margin-top: 4px; color: var(--soft); overflow-wrap: anywhere; }
section { margin-top: 40px; }
.note { margin-top: 6px; color: var(--soft); font-size: 13px; max-width: 110ch; overflow-wrap: anywhere; }
.verdict { margin-top: 22px; padding-left: 14px; border-left: 4px solid var(--good); }
.verdict.over { border-left-color: var(--bad); }
.verdict strong { display: block; font-size: 20px; line-height: 1.3; font-weight: 650; color: var(--good); }
.verdict.over strong { color: var(--bad); }
.verdict.open { border-left-color: var(--faint); }
.verdict.open strong { color: var(--ink); }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 18px 24px; margin: 26px 0 0; }
.tiles div { border-top: 1px solid var(--line); padding-top: 8px; }
.tiles dt { color: var(--soft); font-size: 12.5px; }
.tiles dd { margin: 0; font-size: 17px; font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.bar { position: relative; display: flex; height: 30px; margin-top: 14px; border-radius: 4px; overflow: hidden;
  background: var(--grid); }
.bar span { display: block; height: 100%; min-width: 0; box-shadow: inset -1px 0 0 var(--back); }
.scale { position: relative; height: 20px; margin-top: 4px; font-size: 12px; color: var(--soft);
  font-variant-numeric: tabular-nums; }
.scale span { position: absolute; white-space: nowrap; }
.scale .tick { top: -37px; width: 2px; height: 36px; margin-left: -2px; background: var(--accent); }
.swatch { display: inline-block; width: 11px; height: 11px; margin-right: 8px; border-radius: 2px; vertical-align: -1px;
  flex: none; }
.a0 { background: var(--area-0); } .a1 { background: var(--area-1); } .a2 { background: var(--area-2); }
.a3 { background: var(--area-3); } .a4 { background: var(--area-4); } .a5 { background: var(--area-5); }
.a6 { background: var(--area-6); } .a7 { background: var(--area-7); }
.again { background: var(--again); } .exchange { background: var(--exchange); }
table { width: 100%; margin-top: 14px; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th { padding: 4px 12px 4px 0; color: var(--soft); font-weight: 500; font-size: 12.5px; text-align: left;
  border-bottom: 1px solid var(--line); }
td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--grid); vertical-align: baseline; }
tr > :last-child { padding-right: 0; }
th.n, td.n { text-align: right; white-space: nowrap; }
tr.sum td { border-top: 1px solid var(--line); border-bottom: 0; font-weight: 600; }
td .bytes, .fine { color: var(--faint); }
td.part { white-space: nowrap; }
td.name { overflow-wrap: anywhere; min-width: 12ch; }
.meter { display: block; height: 8px; border-radius: 2px; min-width: 1px; }
td.track { width: 30%; min-width: 60px; vertical-align: middle; }
.peak button { display: block; padding: 0; border: 0; background: none; color: inherit; font: inherit; text-align: left;
  cursor: pointer; overflow-wrap: anywhere; }
.peak .module { color: var(--faint); margin-left: 8px; }
.peak tbody tr:not(.rest):hover, .peak tbody tr.on { background: var(--hover); }
.head { display: flex; flex-wrap: wrap; gap: 8px 20px; align-items: center; justify-content: space-between; }
.tools { display: flex; flex-wrap: wrap; gap: 8px 12px; }
.group { display: inline-flex; flex-wrap: wrap; max-width: 100%; border: 1px solid var(--line); border-radius: 5px;
  overflow: hidden; }
.group button { flex: 1 0 auto; padding: 3px 10px; border: 0; box-shadow: 1px 0 0 var(--line), 0 1px 0 var(--line);
  background: var(--panel); color: var(--soft); font: inherit; font-size: 13px; cursor: pointer; }
.group button:hover { background: var(--hover); color: var(--ink); }
.group button[aria-pressed="true"] { background: var(--ink); color: var(--back); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 12px 0 0; padding: 0; list-style: none; font-size: 13px;
  color: var(--soft); }
.legend li { display: flex; align-items: center; }
.legend .swatch { margin-right: 6px; vertical-align: 0; }
.chart { position: relative; margin-top: 10px; }
.chart canvas { display: block; width: 100%; height: 100%; touch-action: pan-y; cursor: crosshair; }
.chart canvas.over { position: absolute; inset: 0; pointer-events: none; }
#timeline { height: 330px; } #arena { height: 420px; } #frontier { height: 300px; }
#frontier svg { display: block; width: 100%; height: 100%; overflow: visible; }
#frontier text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
#frontier .grid { stroke: var(--grid); } #frontier .axis { stroke: var(--line); }
#frontier .curve { fill: none; stroke: var(--area-0); stroke-width: 1.5; }
#frontier .point { fill: var(--area-0); stroke: var(--back); stroke-width: 2; cursor: default; }
#frontier .point.here { fill: var(--accent); }
#frontier .miss { stroke: var(--faint); stroke-width: 1.5; }
#frontier .budget { stroke: var(--accent); stroke-dasharray: 5 4; }
#frontier text.mark { fill: var(--accent); }
:focus-visible { outline: 2px solid var(--area-0); outline-offset: 2px; }
#tip { position: fixed; z-index: 9; left: 0; top: 0; max-width: min(440px, calc(100vw - 16px)); padding: 9px 12px 10px;
  background: var(--panel); border: 1px solid var(--line); border-radius: 6px; font-size: 13px; line-height: 1.45;
  box-shadow: 0 4px 18px rgba(0, 0, 0, 0.18); pointer-events: none; overflow-wrap: anywhere; }
#tip[hidden] { display: none; }
#tip b { display: block; font-weight: 650; }
#tip .under { color: var(--soft); }
#tip dl { display: grid; grid-template-columns: max-content 1fr; gap: 1px 14px; margin: 6px 0 0;
  font-variant-numeric: tabular-nums; }
#tip dt { color: var(--soft); white-space: nowrap; }
#tip dd { margin: 0; }
#tip dl.numbers { grid-template-columns: max-content max-content; }
#tip dl.numbers dd { text-align: right; }
#tip .strong { font-weight: 650; color: var(--ink); }
dl.reasons { margin: 14px 0 0; }
dl.reasons dt { font-weight: 600; overflow-wrap: anywhere; }
dl.reasons dd { margin: 0 0 12px; color: var(--soft); overflow-wrap: anywhere; max-width: 90ch; }
details { margin-top: 10px; } summary { color: var(--soft); font-size: 13px; cursor: pointer; }
#fault { margin-top: 20px; padding: 10px 14px; border: 1px solid var(--bad); border-radius: 6px; color: var(--bad);
  white-space: pre-wrap; overflow-wrap: anywhere; }
footer { margin-top: 44px; padding-top: 12px; border-top: 1px solid var(--line); color: var(--soft); font-size: 12.5px; }
@media (max-width: 640px) {
  body { padding: 20px 14px 32px; }
  h1 { font-size: 21px; }
  section { margin-top: 32px; }
  .wide { display: none; }
  .tiles { grid-template-columns: repeat(2, 1fr); gap: 14px 18px; }
  td, th { padding-right: 8px; }
  #timeline { height: 270px; } #arena { height: 320px; } #frontier { height: 250px; }
}
@media print { .tools, #tip { display: none; } section { break-inside: avoid; } }
)css";

}  // namespace plimsoll
