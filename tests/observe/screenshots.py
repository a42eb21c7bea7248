#!/usr/bin/env python3
"""Pictures of the pages for docs/: screenshots.py FOLDER. Asserts what is on them first."""

import pathlib
import subprocess
import sys
import time
import unittest

from fixture import BIN, PANELS, PagesTest, run

OUT = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "docs/images")
SEEN = 45  # seconds that a run goes on before its picture is taken


class Screenshots(PagesTest):
    def take(self, page, name, width, height, dark=False, quality=80):
        """`height`: in pixels, or the panel that the picture ends with."""
        page.dark(dark)
        page.resize(width, 1000)
        self.assert_fits(page, width)
        self.assert_legible(page, dark)
        self.assertEqual(page.errors(), [])
        if isinstance(height, str):
            height = page.run(f"Math.ceil(document.getElementById('panel-{height}').getBoundingClientRect().bottom + scrollY) + 12")
        page.resize(width, height)
        time.sleep(2)  # until all that is now in sight is drawn
        picture = self.folder / f"{name}.png"
        page.screenshot(picture)
        OUT.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cwebp", "-quiet", "-q", str(quality), str(picture), "-o", str(OUT / f"{name}.webp")], check=True)
        print(f"{OUT / name}.webp: {(OUT / f'{name}.webp').stat().st_size // 1024} KiB")

    def test_the_dashboard(self):
        _, url = self.start_cluster("live", 4, "--set", "train.epochs=40")
        page = self.browser.page(url)
        page.wait("document.querySelector('[data-figure=\"test accuracy\"] b')?.textContent.includes('%')")
        page.run("document.getElementById('checkpoint').click()")
        time.sleep(SEEN)
        self.assert_panels_have_data(page, PANELS)
        self.assert_values_change(page)
        self.take(page, "dashboard-light", 1400, "live")
        self.assert_values_change(page)
        self.take(page, "dashboard-dark", 1400, "live", dark=True)
        page.resize(390, 1100)
        self.assert_fits(page, 390)
        self.assert_panels_have_data(page, PANELS)
        self.assert_panels_are_wide_enough(page)
        self.assert_values_change(page)
        self.take(page, "dashboard-narrow", 390, 1100, dark=True)

    def test_recorded_runs(self):
        runs = self.folder / "runs"
        for codec in ("none", "topk", "onebit", "powersgd"):
            self.start("ps-run", self.config(codec), "--run-dir", str(runs / codec), "--set", f"compression.push={codec}",
                       "--set", "train.epochs=12", ready="next commands")
        (runs / "cut").mkdir()
        (runs / "cut" / "config.yaml").write_text((runs / "topk" / "config.yaml").read_text())
        (runs / "cut" / "summary.json").write_text("{")
        ui = self.start("ps-ctl", "ui", str(runs), "--port", "0", ready=r"(http://[0-9.:]+/)")
        page = self.browser.page(ui.found.group(1) + "#run=none&run=topk&run=onebit&run=powersgd")
        page.wait("document.querySelectorAll('#figures th').length === 5")
        self.assert_panels_have_data(page, ["loss", "accuracy", "bytes", "latency", "live"])
        self.take(page, "runs", 1400, "time")

    def test_the_report_of_a_sweep(self):
        sweep = pathlib.Path("runs/quick").absolute()
        # Takes minutes if the sweep is not finished.
        run(BIN / "ps-sweep", "configs/sweeps/quick.yaml", "--dir", sweep, "--quiet")
        page = self.browser.page((sweep / "report.html").as_uri())
        page.wait("document.querySelectorAll('figure svg').length >= 6")
        self.assertEqual(page.run("document.querySelectorAll('table.sortable tbody tr').length"), 12)
        self.assertEqual(page.run("document.getElementById('troubles')"), None)
        self.take(page, "report", 1280, 1900)
        page.run("document.getElementById('figure-accuracy-time').scrollIntoView()")
        self.take(page, "report-dark", 1280, 1100, dark=True)


if __name__ == "__main__":
    unittest.main()
