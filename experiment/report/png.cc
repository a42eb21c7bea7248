#include "experiment/report/png.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "experiment/launch/child_process.h"
#include "experiment/launch/program_dir.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr Duration kPicturePatience = std::chrono::seconds(120);  // for one picture
constexpr const char* kBrowsers[] = {"chromium", "chromium-browser", "google-chrome"};

absl::StatusOr<std::string> FindBrowser() {
  for (const char* name : kBrowsers) {
    if (auto found = FoundProgram(name); found.ok()) return found;
  }
  return absl::FailedPreconditionError(
      "--png needs a browser, and there is no chromium, chromium-browser or google-chrome in any "
      "folder of PATH; apt-get install chromium, or take --svg, which needs nothing");
}

absl::Status Draw(const std::string& browser, const std::string& profile,
                  const WrittenFigure& figure, const std::string& png) {
  std::error_code error;
  fs::remove(png, error);  // otherwise an old file would pass for the new one
  ChildOptions child;
  child.name = fs::path(browser).filename();
  child.argv = {
      browser,
      "--headless=new",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--no-first-run",
      "--hide-scrollbars",
      "--force-device-scale-factor=2",
      "--blink-settings=preferredColorScheme=1",  // light
      "--user-data-dir=" + profile,
      absl::StrCat("--window-size=", std::ceil(figure.width), ",", std::ceil(figure.height)),
      "--screenshot=" + fs::absolute(png).string(),
      "file://" + fs::absolute(figure.svg).string()};
  // Chromium refuses to run as root without this flag. It only reads our files.
  if (geteuid() == 0) child.argv.insert(child.argv.begin() + 1, "--no-sandbox");
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> process,
                        ChildProcess::Start(std::move(child)));
  if (!process->WaitEnded(kPicturePatience)) {
    return absl::DeadlineExceededError(
        absl::StrCat(browser, " does not end, drawing ", figure.svg));
  }
  if (process->exit_code() == 0 && fs::exists(png, error)) return absl::OkStatus();
  return UnavailableError(browser, " ", process->HowItEnded(), " and drew no ", png, ": ",
                          process->StderrTail());
}

}  // namespace

absl::StatusOr<std::vector<std::string>> WritePngs(const std::vector<WrittenFigure>& figures,
                                                   const std::string& dir) {
  PSGD_ASSIGN_OR_RETURN(const std::string browser, FindBrowser());
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return FileError("make the folder", dir, error.value());
  std::string profile = fs::temp_directory_path() / "psgd-browser-XXXXXX";
  if (mkdtemp(profile.data()) == nullptr) return FileError("make the folder", profile, errno);
  const absl::Cleanup remove = [&] { fs::remove_all(profile, error); };
  std::vector<std::string> files;
  for (const WrittenFigure& figure : figures) {
    files.push_back(absl::StrCat(dir, "/", fs::path(figure.svg).stem().string(), ".png"));
    PSGD_RETURN_IF_ERROR(Draw(browser, profile, figure, files.back()));
  }
  return files;
}

}  // namespace psgd
