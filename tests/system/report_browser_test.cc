// The report in a real browser: figures, texts and sorting, light and dark, wide and narrow. Needs
// Debian's chromium; otherwise it is skipped.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/system/run_test.h"
#include "tests/unit/sweep/made_runs.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kChromium[] = "/usr/bin/chromium";

// Runs in the loaded page. Its findings become the page's title.
constexpr char kProbe[] = R"js(<script>
'use strict';
const wrong = [];
const check = (good, what) => { if (!good) wrong.push(what); };
const figures = [...document.querySelectorAll('figure')];
check(figures.length >= 6, 'only ' + figures.length + ' figures');
for (const figure of figures) {
  const marks = figure.querySelectorAll('svg path, svg circle, svg rect:not(.background), svg polyline');
  check(marks.length > 1, figure.id + ' is empty');
  const box = figure.querySelector('svg').getBoundingClientRect();
  check(box.width > 300 && box.height > 100, figure.id + ' has no size');
  check(!/NaN|undefined|inf/.test(figure.querySelector('svg').outerHTML), figure.id + ' has numbers that are none');
  const link = figure.querySelector('a[download]');
  check(atob(link.href.split(',')[1]).split('\n').length > 2, figure.id + ' has no data');
}
check(document.documentElement.scrollWidth <= innerWidth, 'wider than the window: ' + document.documentElement.scrollWidth);
const numbers = color => color.match(/[\d.]+/g).slice(0, 3).map(v => v / 255);
const luminance = color => {
  const [r, g, b] = numbers(color).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const paper = getComputedStyle(document.body).backgroundColor;
check(matchMedia('(prefers-color-scheme: dark)').matches === (luminance(paper) < 0.5), 'not the scheme that was asked for');
for (const text of document.querySelectorAll('h1, p, figcaption, a, td.bad')) {
  check(contrast(getComputedStyle(text).color, paper) >= 4.5, 'illegible: ' + text.textContent.slice(0, 30));
}
for (const mark of document.querySelectorAll('svg text, svg circle, svg path')) {
  const least = mark.tagName === 'text' ? 4.5 : 3;
  if (getComputedStyle(mark).fill === 'none') continue;
  check(contrast(getComputedStyle(mark).fill, paper) >= least, 'illegible in a figure: ' + mark.outerHTML.slice(0, 90));
}
const table = document.querySelector('table.sortable');
const head = [...table.tHead.rows[0].cells].find(cell => cell.textContent === 'accuracy');
const column = () => [...table.tBodies[0].rows].map(row => Number(row.cells[head.cellIndex].dataset.n)).filter(n => !isNaN(n));
const sorted = (list, sign) => list.every((n, i) => i === 0 || sign * (n - list[i - 1]) >= 0);
check(column().length > 3, 'no numbers to sort');
head.querySelector('button').focus();
check(document.activeElement === head.querySelector('button'), 'a column cannot be reached by keyboard');
head.querySelector('button').click();
check(sorted(column(), 1) && head.getAttribute('aria-sort') === 'ascending', 'not sorted upwards');
head.querySelector('button').click();
check(sorted(column(), -1) && head.getAttribute('aria-sort') === 'descending', 'not sorted downwards');
check(document.querySelectorAll('tr.twin').length > 0, 'no twin is shown');
document.title = wrong.length === 0 ? 'all is well' : wrong.join(' | ');
</script>)js";

class ReportBrowserTest : public RunTest {
 protected:
  void SetUp() override {
    if (access(kChromium, X_OK) != 0)
      GTEST_SKIP() << "no " << kChromium << ": install Debian's chromium";
    int number = 0;
    for (const char* push : {"none", "fp16", "topk", "onebit"}) {
      for (const char* staleness : {"0", "4"}) {
        for (const int workers : {1, 2}) {
          for (const int seed : {1, 2}) {
            ++number;
            WriteRun(
                Path("runs/r" + std::to_string(number)),
                {.push = push,
                 .staleness = staleness,
                 .workers = workers,
                 .seed = seed,
                 .accuracies = {0.5, 0.7 + 0.003 * number, 0.8 + 0.003 * number},
                 .seconds = 5.0 + number % 7,
                 .samples_per_second = 900.0 * workers + number,
                 .bytes_pushed = 1'000'000u / static_cast<unsigned>(number),
                 .staleness_counts = staleness[0] == '0' ? std::vector<uint64_t>{9}
                                                         : std::vector<uint64_t>{5, 3, 2, 1, 1}});
          }
        }
      }
    }
    WriteRun(Path("runs/broken"), {.push = "sign", .status = "failed"});
    std::filesystem::remove(Path("runs/broken/metrics.jsonl"));
    Probe("runs");
  }

  // Makes the folder's report with the probe in it.
  void Probe(const std::string& folder) const {
    const Ended ended = RunProgram({"ps-sweep", "report", Path(folder)});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const std::string page = File(folder + "/report.html");
    const size_t end = page.rfind("</body>");
    ASSERT_NE(end, std::string::npos);
    Write("probed.html", page.substr(0, end) + kProbe + page.substr(end));
  }

  // `scheme`: 0 is dark.
  Ended Browse(const std::string& window, int scheme) const {
    return RunProgram({kChromium, "--headless=new", "--no-sandbox", "--disable-gpu",
                       "--disable-dev-shm-usage", "--no-first-run",
                       "--user-data-dir=" + Path("profile"), "--enable-logging=stderr",
                       "--window-size=" + window,
                       "--blink-settings=preferredColorScheme=" + std::to_string(scheme),
                       "--dump-dom", "file://" + Path("probed.html")});
  }
};

TEST_F(ReportBrowserTest, LightDarkAndNarrow) {
  for (const int scheme : {1, 0}) {
    for (const char* window : {"1280,900", "500,900"}) {
      const Ended page = Browse(window, scheme);
      ASSERT_EQ(page.code, 0) << page.err;
      EXPECT_THAT(page.out, HasSubstr("<title>all is well</title>")) << window << " " << scheme;
      EXPECT_THAT(page.err, Not(HasSubstr("CONSOLE"))) << "the page complains";
    }
  }
}

// A row for each of 250 configurations, with the usual columns to sort by.
TEST_F(ReportBrowserTest, FiveHundredRuns) {
  const char* const codecs[] = {"none", "fp16", "int8", "onebit", "topk"};
  const auto made = [&](int i) {
    return MadeRun{.push = codecs[i % 5],
                   .staleness = std::to_string(i / 5 % 5),
                   .workers = 1 + i / 25 % 5,
                   .batch = 16 << (i / 125 % 2),
                   .seed = 1 + i / 250,
                   .accuracies = {0.5, 0.7 + 0.002 * (i % 25)},
                   .seconds = 5.0 + i % 7,
                   .bytes_pushed = 1'000'000u / static_cast<unsigned>(1 + i % 5)};
  };
  for (int i = 0; i < 500; ++i) {
    const std::string folder = "many/run-" + std::to_string(i);
    if (i < 25) {
      WriteRun(Path(folder), made(i));
      continue;
    }
    // The runs are copied, since writing a summary waits for the disk. The config has the seed.
    std::filesystem::copy(Path("many/run-" + std::to_string(i % 25)), Path(folder));
    WriteRunConfig(Path(folder), made(i));
  }
  Probe("many");
  const Ended page = Browse("1280,900", 1);
  ASSERT_EQ(page.code, 0) << page.err;
  EXPECT_THAT(page.out,
              AllOf(HasSubstr("<title>all is well</title>"), HasSubstr("500 runs: 500 finished")));
  EXPECT_THAT(page.err, Not(HasSubstr("CONSOLE"))) << "the page complains";
}

// A number in a PNG's header.
uint32_t BigEndian(const std::string& bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

TEST_F(ReportBrowserTest, FiguresAsPictures) {
  const Ended ended = RunProgram({"ps-sweep", "report", Path("runs"), "--png", Path("pictures")},
                                 std::chrono::seconds(400));
  ASSERT_EQ(ended.code, 0) << ended.err;
  int pictures = 0;
  for (const auto& file : std::filesystem::directory_iterator(Path("pictures"))) {
    const std::string name = file.path().filename();
    EXPECT_THAT(name, testing::EndsWith(".png"));  // no other drawings are there
    EXPECT_THAT(ended.out, HasSubstr(name));
    const std::string picture = File("pictures/" + name);
    ASSERT_GT(picture.size(), 5000u) << name << " is blank";
    EXPECT_EQ(picture.substr(1, 3), "PNG");
    EXPECT_GE(BigEndian(picture, 16), 600u) << name;  // width
    EXPECT_GE(BigEndian(picture, 20), 200u) << name;
    ++pictures;
  }
  EXPECT_GE(pictures, 6);
}

TEST_F(ReportBrowserTest, WithoutABrowserItIsSaid) {
  const Ended ended = RunProgram({"/usr/bin/env", "PATH=" + Path(""), ProgramPath("ps-sweep"),
                                  "report", Path("runs"), "--png", Path("pictures")});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--png needs a browser"),
                               HasSubstr("apt-get install chromium"), HasSubstr("--svg")));
}

}  // namespace
}  // namespace psgd
