// Keeps the journals of servers that die, and of copies that are dropped, for an audit.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace psgd {

// Five times a second a thread makes hard links to the journals of all added servers. Links cost
// almost nothing. A copy can be dropped at any time, and its journal is deleted at once. An entry
// that is written to a linked file later is kept too.
class JournalKeeper {
 public:
  // Keeps journals in DIR/shard-N/.
  JournalKeeper(std::string folder, int shards);
  ~JournalKeeper();

  // Begins to keep the journals of a server.
  void Add(const std::string& run_dir);
  // Makes the links now. A server that was killed changes its files when it starts again.
  void KeepNow();

  // Folders with a journal of a shard: for each journal its newest links, and the ones before if
  // there are any. The newest ones can be unusable if the server removed files while the links were
  // made.
  struct Kept {
    std::string newest, before;
  };
  static std::vector<Kept> Of(const std::string& folder, int shard);

 private:
  void KeepAll() const;  // REQUIRES: mutex_ is held
  void Keep(const std::string& run_dir, int shard) const;

  const std::string folder_;
  const int shards_;
  std::mutex mutex_;
  std::condition_variable ends_;
  std::set<std::string> run_dirs_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace psgd
