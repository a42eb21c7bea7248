#include "server/durability/rocks.h"

#include <rocksdb/env.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <rocksdb/table.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/open_files.h"

namespace psgd {
namespace {

// Without this, RocksDB keeps a log file beside the data, even if it only reads.
class SilentLogger : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace

rocksdb::Options PlainDatabase() {
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;
  table.no_block_cache = true;  // everything is read once
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kNoCompression;
  options.info_log = std::make_shared<SilentLogger>();
  options.disable_auto_compactions = true;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

void StartRocksThreads() {
  rocksdb::Env* const env = rocksdb::Env::Default();
  env->SetBackgroundThreads(1, rocksdb::Env::HIGH);
  env->SetBackgroundThreads(2, rocksdb::Env::LOW);
}

absl::Status FromRocks(const rocksdb::Status& status, const std::string& folder) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("database ", folder, ": ", status.ToString());
  // RocksDB has a code for ENOSPC alone.
  const bool over_quota = absl::StrContains(text, std::strerror(EDQUOT));
  if (status.IsNoSpace() || over_quota) {
    return ResourceExhaustedError(text, "; free some space on ", MountPointOf(folder));
  }
  if (absl::StrContains(text, std::strerror(EMFILE))) {
    return UnavailableError(text, "; ", OpenFilesText());
  }
  if (status.IsCorruption()) return absl::DataLossError(text);
  return UnavailableError(text, "; check the disk and the folder's permissions");
}

}  // namespace psgd
