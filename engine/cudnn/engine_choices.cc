#include "engine/cudnn/engine_choices.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace psgd::cudnn {
namespace {

// A limit for one convolution. A longer measurement hangs.
constexpr auto kLongestMeasuring = std::chrono::seconds(10);
constexpr auto kPoll = std::chrono::milliseconds(5);
constexpr int kMostIndex = 1000;  // an engine's index; a larger one means a damaged file

// False after a write to a full disk.
bool EndsInALine(int file) {
  const off_t end = lseek(file, 0, SEEK_END);
  char last = '\n';
  return end <= 0 || pread(file, &last, 1, end - 1) != 1 || last == '\n';
}

}  // namespace

EngineChoices& EngineChoices::Of(const std::string& file) {
  static std::mutex* const mutex = new std::mutex();
  static auto* const all = new std::map<std::string, EngineChoices*>();
  std::lock_guard lock(*mutex);
  EngineChoices*& choices = (*all)[file];
  if (choices == nullptr) choices = new EngineChoices(file);
  return *choices;
}

EngineChoices::Measuring::Measuring(EngineChoices* choices)
    : lock_(choices->measuring_), file_(choices->Open()) {
  const auto begin = std::chrono::steady_clock::now();
  while (file_ != -1 && flock(file_, LOCK_EX | LOCK_NB) == -1 &&
         std::chrono::steady_clock::now() - begin < kLongestMeasuring) {
    std::this_thread::sleep_for(kPoll);
  }
}

EngineChoices::Measuring::~Measuring() {
  if (file_ != -1) close(file_);
}

int EngineChoices::Open() const {
  if (file_.empty()) return -1;
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), failed);
  return open(file_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

std::optional<int> EngineChoices::Find(const std::string& problem) {
  std::lock_guard lock(mutex_);
  auto found = engines_.find(problem);
  if (found == engines_.end()) {
    // Another process may have measured it meanwhile.
    ReadFile();
    found = engines_.find(problem);
  }
  return found == engines_.end() ? std::nullopt : std::optional(found->second);
}

void EngineChoices::Remember(const std::string& problem, int engine) {
  std::lock_guard lock(mutex_);
  engines_[problem] = engine;
  const int file = Open();
  if (file == -1) return;
  // One write keeps lines of several processes apart. A lost line only costs another measurement.
  const std::string line = absl::StrCat(EndsInALine(file) ? "" : "\n", engine, "\t", problem, "\n");
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
  close(file);
}

void EngineChoices::ReadFile() {
  if (file_.empty()) return;
  std::ifstream file(file_);
  std::map<std::string, int> read;
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t');
    int engine = 0;
    if (tab == std::string::npos || file.eof()) continue;  // a line that was cut off
    if (!absl::SimpleAtoi(line.substr(0, tab), &engine) || engine < 0 || engine > kMostIndex)
      continue;
    read[line.substr(tab + 1)] = engine;
  }
  // Choices of this process stay, so that all its networks use the same engines.
  engines_.merge(read);
}

}  // namespace psgd::cudnn
