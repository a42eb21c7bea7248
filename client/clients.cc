#include "client/clients.h"

#include <utility>

namespace psgd {

uint64_t Clients::Add(std::unique_ptr<Client> client) {
  auto open = std::make_shared<OpenClient>();
  open->client = std::move(client);
  std::lock_guard lock(mutex_);
  const uint64_t handle = next_++;
  open_[handle] = std::move(open);
  return handle;
}

std::shared_ptr<OpenClient> Clients::Find(uint64_t handle) const {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(handle);
  return found == open_.end() ? nullptr : found->second;
}

std::shared_ptr<OpenClient> Clients::Take(uint64_t handle) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(handle);
  if (found == open_.end()) return nullptr;
  std::shared_ptr<OpenClient> open = std::move(found->second);
  open_.erase(found);
  return open;
}

bool Clients::WasClosed(uint64_t handle) const {
  std::lock_guard lock(mutex_);
  return handle != 0 && handle < next_ && open_.find(handle) == open_.end();
}

}  // namespace psgd
