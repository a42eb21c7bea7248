#include "experiment/report/page_parts.h"

namespace psgd {

const char kPageStyle[] = R"css(
:root{color-scheme:light dark;--ink:#1c1c1c;--soft:#595959;--rule:#d5d5d5;--paper:#fff;--shade:#f4f4f4;
--link:#0057a3;--bad:#a3170f}
@media (prefers-color-scheme:dark){:root{--ink:#eee;--soft:#b0b0b0;--rule:#3a3a3a;--paper:#161616;--shade:#222;
--link:#8ec5ff;--bad:#ff9b8f}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:76rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);
background:var(--paper)}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.25rem;margin:2.5rem 0 .5rem}
p{max-width:44rem}a{color:var(--link)}
.question{font-size:1.1rem;color:var(--soft)}
.scroll{overflow-x:auto;border:1px solid var(--rule)}
figure{margin:2rem 0;break-inside:avoid}figure h2{margin-bottom:.3rem}
figure .scroll{background:var(--paper)}figure svg{display:block;max-width:none}
@media (min-width:52rem){figure svg{width:100%;max-width:64rem;height:auto;margin:auto}}
figcaption{color:var(--soft);font-size:.9rem;margin:.4rem 0}
table{border-collapse:collapse;font-size:.85rem;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .5rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child,th.word,td.word{text-align:left}
td:first-child{white-space:normal;min-width:12rem}
td.two{white-space:normal}td.two span{white-space:nowrap}
thead th{position:sticky;top:0;background:var(--shade);vertical-align:bottom}
th button{all:unset;cursor:pointer;font-weight:600}
th button:hover{text-decoration:underline}
th button:focus-visible,a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--link);
outline-offset:2px}
th[aria-sort=ascending] button::after{content:" \25B2"}th[aria-sort=descending] button::after{content:" \25BC"}
tr.twin td{background:var(--shade);font-weight:600}
td.bad{color:var(--bad)}
details{margin:.4rem 0;font-size:.9rem}summary{cursor:pointer;color:var(--link)}
details .scroll{max-height:22rem;overflow:auto}
#tip{position:fixed;display:none;max-width:22rem;padding:.3rem .6rem;border-radius:4px;font-size:.85rem;
background:var(--ink);color:var(--paper);pointer-events:none;z-index:2}
@media print{:root{--ink:#000;--soft:#444;--rule:#bbb;--paper:#fff;--shade:#eee;--link:#000;--bad:#000}
body{max-width:none;padding:0}.scroll{overflow:visible;border:0}figure svg{max-width:100%;height:auto}
.screen{display:none}th,td{white-space:normal;padding:.15rem .3rem;font-size:.7rem}thead th{position:static}}
)css";

const char kPageScript[] = R"js(
'use strict';
for (const table of document.querySelectorAll('table.sortable')) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector('button').addEventListener('click', () => {
    const up = head.getAttribute('aria-sort') !== 'ascending';
    heads.forEach(other => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const key = row => {
      const cell = row.cells[column];
      return cell.dataset.n === undefined ? cell.textContent : Number(cell.dataset.n);
    };
    const compare = (a, b) => {
      const x = key(a), y = key(b);
      if (typeof x !== typeof y) return typeof x === 'number' ? -1 : 1;
      const order = typeof x === 'number' ? x - y : x.localeCompare(y);
      return up ? order : -order;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  }));
}
const tip = document.getElementById('tip');
document.addEventListener('pointermove', event => {
  const mark = event.target.closest('svg.plot [class]');
  const text = mark && mark.querySelector(':scope > title');
  tip.style.display = text ? 'block' : 'none';
  if (!text) return;
  tip.textContent = text.textContent;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
});
)js";

}  // namespace psgd
