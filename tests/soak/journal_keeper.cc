#include "tests/soak/journal_keeper.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A copy that begins with an image and the copy that it replaces live together for longer, so no
// journal is missed.
constexpr auto kBetweenLinks = 200ms;
constexpr char kBefore[] = ".before";

}  // namespace

JournalKeeper::JournalKeeper(std::string folder, int shards)
    : folder_(std::move(folder)), shards_(shards), thread_([this] {
        std::unique_lock lock(mutex_);
        while (!ends_.wait_for(lock, kBetweenLinks, [this] { return ended_; })) KeepAll();
      }) {}

JournalKeeper::~JournalKeeper() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void JournalKeeper::Add(const std::string& run_dir) {
  const std::lock_guard lock(mutex_);
  run_dirs_.insert(run_dir);
}

void JournalKeeper::KeepNow() {
  const std::lock_guard lock(mutex_);
  KeepAll();
}

void JournalKeeper::KeepAll() const {
  for (const std::string& run_dir : run_dirs_) {
    for (int shard = 0; shard < shards_; ++shard) Keep(run_dir, shard);
  }
}

void JournalKeeper::Keep(const std::string& run_dir, int shard) const {
  const std::string journal = absl::StrCat(run_dir, "/server/journal/shard-", shard);
  const std::string fresh = folder_ + "/linking";
  std::error_code failed, ignored;
  fs::create_directories(absl::StrCat(folder_, "/shard-", shard));
  fs::copy(journal, fresh, fs::copy_options::recursive | fs::copy_options::create_hard_links,
           failed);
  std::string database;  // a copy that starts anew makes another database
  if (!failed && std::ifstream(fresh + "/log/IDENTITY") >> database) {
    const std::string kept = absl::StrCat(folder_, "/shard-", shard, "/", database);
    fs::remove_all(kept + kBefore, ignored);
    fs::rename(kept, kept + kBefore, ignored);
    fs::rename(fresh, kept, ignored);
  }
  fs::remove_all(fresh, ignored);
}

std::vector<JournalKeeper::Kept> JournalKeeper::Of(const std::string& folder, int shard) {
  std::vector<Kept> kept;
  std::error_code none;
  for (fs::directory_iterator it(absl::StrCat(folder, "/shard-", shard), none), end; it != end;
       ++it) {
    const std::string path = it->path();
    if (!path.ends_with(kBefore)) kept.push_back({path, path + kBefore});
  }
  return kept;
}

}  // namespace psgd
