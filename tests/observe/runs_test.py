#!/usr/bin/env python3
"""ps-ctl ui over recorded runs, in a real browser. Exit code 77: there is none."""

import sys
import time
import unittest

from devtools import find_chromium
from fixture import PANELS, PagesTest, write_fifty_workers, write_runs

RUNS = 500
# The panels of a run with only curves: it has no records of workers and shards.
CURVES = ["loss", "accuracy", "speed", "bytes", "residual"]
# A run that predicts numbers.
NUMBERS = """
name: numbers
model: {{zoo: mlp, hidden: [8], loss: squared}}
data: {{format: table, path: {table}, target: y, batch: 16}}
train: {{epochs: 3}}
cluster: {{shards: 1, workers: 1}}
"""


class RunsTest(PagesTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_runs(cls.folder / "runs", RUNS)
        write_fifty_workers(cls.folder / "runs" / "fifty")
        # A run by the real programs, long enough to go on for seconds after its first checkpoint.
        cls.start("ps-run", cls.config("real"), "--run-dir", str(cls.folder / "runs" / "real"), "--set", "train.epochs=30",
                  ready="next commands")
        table = cls.folder / "numbers.csv"
        table.write_text("x,y\n" + "".join(f"{i % 17},{3 * (i % 17) + i % 2}\n" for i in range(400)))
        numbers = cls.folder / "numbers.yaml"
        numbers.write_text(NUMBERS.format(table=table))
        cls.start("ps-run", str(numbers), "--run-dir", str(cls.folder / "runs" / "numbers"), ready="next commands")
        cls.ui = cls.start("ps-ctl", "ui", str(cls.folder / "runs"), "--port", "0", ready=r"(http://[0-9.:]+/)")
        cls.url = cls.ui.found.group(1)
        cls.page = cls.browser.page(cls.url)
        cls.page.wait(f"document.querySelectorAll('#runs tbody tr').length === {RUNS + 3}")

    def setUp(self):
        self.page.run("document.getElementById('clear').click()")
        self.find("")

    def find(self, words):
        self.page.run(f"""(() => {{ const find = document.getElementById('find');
          find.value = '{words}'; find.dispatchEvent(new Event('input')); }})()""")

    def choose(self, *runs):
        for run in runs:
            self.page.run(f"document.querySelector('input[aria-label=\\'show {run}\\']').click()")
        # Until the panels are there, the page is too short to scroll.
        self.page.wait("!document.getElementById('panels').hidden")

    def rows(self):
        return self.page.run("[...document.querySelectorAll('#runs tbody tr')].map((row) => [...row.cells].map((c) => c.textContent.trim()))")

    def test_broken_runs_are_shown_as_such_and_hide_no_others(self):
        self.find("sweep-0/")
        rows = {row[0]: row for row in self.rows()}
        self.assertEqual(len(rows), 50)
        for run, status, why in (("run-001", "broken", "summary.json"), ("run-002", "died", "no summary"),
                                 ("run-003", "damaged", "metrics.jsonl"), ("run-004", "damaged", "config.yaml is missing"),
                                 ("run-005", "damaged", "config.yaml")):
            self.assertEqual(rows[f"sweep-0/{run}"][1], status)
            self.assertIn(why, rows[f"sweep-0/{run}"][-1])
        self.assertEqual(rows["sweep-0/run-006"][1], "finished")
        self.choose("sweep-0/run-001", "sweep-0/run-003", "sweep-0/run-006")
        self.page.wait("document.querySelectorAll('#figures th').length === 4")
        self.assert_panels_have_data(self.page, CURVES)
        self.assertEqual(self.page.errors(), [])

    def test_a_recorded_run_has_every_panel(self):
        self.choose("real")
        self.page.wait("document.querySelector('[data-figure=\"test accuracy\"] b')?.textContent.includes('%')")
        self.assert_panels_have_data(self.page, PANELS)
        self.assertTrue(self.page.run("document.getElementById('control').hidden"))

    def test_numbers_have_measures_in_place_of_an_accuracy(self):
        self.find("numbers")
        self.assertRegex(self.rows()[0][4], r"^RMSE [0-9.]+$")
        self.choose("numbers")
        self.page.wait("/^[0-9.]+$/.test(document.querySelector('[data-figure=\"test RMSE\"] b')?.textContent)")
        self.assert_panels_have_data(self.page, ["loss", "measures"])
        self.page.run("document.getElementById('panel-accuracy').scrollIntoView()")
        self.page.wait("document.getElementById('panel-accuracy').textContent.includes('numbers and labels have none')")
        self.find("")
        self.choose("real")
        self.page.wait("document.getElementById('figures').textContent.includes('(test RMSE)')")
        self.assertEqual(self.page.errors(), [])

    def test_several_side_by_side(self):
        chosen = [f"sweep-1/run-{i:03}" for i in range(60, 66)]
        self.choose(*chosen, "sweep-1/run-070")
        self.page.wait("document.querySelectorAll('#figures th').length === 7")
        self.assertIn("no more than 6", self.page.run("document.getElementById('count').textContent"))
        self.assert_panels_have_data(self.page, CURVES)
        legend = "Chart.getChart(document.querySelector('#panel-loss canvas')).legend.legendItems.map((i) => i.text)"
        self.page.wait(f"{legend}.length === 6")
        self.assertEqual(self.page.run(legend), chosen)
        # One line per phase, but one legend entry per run.
        self.page.run("document.getElementById('panel-time').scrollIntoView()")
        time_chart = "Chart.getChart(document.querySelector('#panel-time canvas'))"
        self.page.wait(f"{time_chart}.data.datasets.length === 24")
        self.assertTrue(self.page.run(f"{time_chart}.options.plugins.legend.display"))
        # The times on the axis are round, and the last value has no tick, which could overlap
        # another.
        ticks = self.page.run("Chart.getChart(document.querySelector('#panel-loss canvas')).scales.x.ticks.map((tick) => tick.value)")
        self.assertGreater(len(ticks), 2)
        for tick in ticks:
            steps = tick / (ticks[1] - ticks[0])
            self.assertAlmostEqual(steps, round(steps))
        # A link to the page shows the same runs.
        again = self.browser.page(self.page.run("location.href"))
        again.wait("document.querySelectorAll('#figures th').length === 7")

    def test_fifty_workers(self):
        self.choose("fifty")
        self.assert_panels_have_data(self.page, ["speed", "staleness", "residual", "live"])
        # Panels out of view are not drawn.
        self.page.run("document.getElementById('panel-staleness').scrollIntoView()")
        self.page.wait("document.querySelectorAll('#panel-staleness tbody tr').length === 50")
        self.page.run("document.getElementById('panel-speed').scrollIntoView()")
        self.page.wait("Chart.getChart(document.querySelector('#panel-speed canvas')).data.datasets.length === 51")
        self.page.run("document.getElementById('panel-live').scrollIntoView()")
        self.page.wait("document.getElementById('panel-live').textContent.includes('waiting for server 2')")
        servers = self.page.run("""[...document.querySelectorAll('#panel-live table:nth-of-type(3) tr')]
          .map((row) => [...row.cells].map((cell) => cell.textContent).join('|'))""")
        self.assertEqual(servers, ["server|state|shards|held|came|went|weights|copies|heard",
                                   "server 1 rack-1 (leads)|✓ live|0 1 2 3 4|5|1|4|5.00 MB|2 + 1 catching up|0.2 s ago",
                                   "server 2 rack-2|✕ away|5 6 7|3|4|1|3.00 MB|2|0.2 s ago"])
        took = self.page.run("""(() => { const chart = Chart.getChart(document.querySelector('#panel-speed canvas'));
          const start = performance.now(); for (let i = 0; i < 10; ++i) chart.update('none');
          return (performance.now() - start) / 10; })()""")
        print(f"50 workers, 60 moments: their lines are drawn in {took:.1f} ms")
        self.assertEqual(self.page.errors(), [])

    def test_hundreds_of_runs_stay_usable(self):
        start = time.monotonic()
        took = self.page.run("""(() => { const start = performance.now();
          for (const title of document.querySelectorAll('#runs th button')) title.click();
          return performance.now() - start; })()""")
        self.assertEqual(len(self.rows()), RUNS + 3)
        print(f"{RUNS + 3} runs: sorted by each of 15 columns in {took:.0f} ms; seen after {time.monotonic() - start:.1f} s")
        self.page.run("document.querySelectorAll('#runs th button')[2].click()")
        accuracy = [float(row[2].split()[0]) for row in self.rows() if row[2] != "–"]
        self.assertEqual(accuracy, sorted(accuracy, reverse=True))
        self.find("onebit sweep-3")
        self.assertEqual({row[5] for row in self.rows()}, {"onebit"})
        self.assertEqual(self.page.errors(), [])


if __name__ == "__main__":
    if find_chromium() is None:
        print("SKIPPED: no Chromium is installed (apt-get install chromium): the pages are not tried")
        sys.exit(77)
    unittest.main()
