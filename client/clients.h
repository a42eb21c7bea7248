// The clients behind the handles of libpsgd.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "client/client.h"

namespace psgd {

// One client, and the lock that its calls take in turn.
struct OpenClient {
  std::mutex mutex;
  std::unique_ptr<Client> client;  // guarded by mutex; null: it has left
};

// Thread-safe. A number is never given twice, so no client is found for a handle that was closed or
// never given.
class Clients {
 public:
  uint64_t Add(std::unique_ptr<Client> client);
  // Null: there is no such client.
  std::shared_ptr<OpenClient> Find(uint64_t handle) const;
  // As Find, and removes the client.
  std::shared_ptr<OpenClient> Take(uint64_t handle);
  // A number that was given out and closed.
  bool WasClosed(uint64_t handle) const;

 private:
  mutable std::mutex mutex_;  // guards everything below
  uint64_t next_ = 1;
  std::map<uint64_t, std::shared_ptr<OpenClient>> open_;
};

}  // namespace psgd
