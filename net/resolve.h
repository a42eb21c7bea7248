// Finds the addresses of host names.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "net/address.h"

namespace psgd {

// An address in the form that system calls take.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  int port() const;
  std::string host() const;  // in digits
  bool loopback() const;
};

// All addresses of a name and port, at least one; those of IPv4 first, since most servers listen
// there. May wait for name servers. UNAVAILABLE: the name is unknown, now at least.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host, int port);

// The hosts of these addresses in digits; empty if there was an error.
std::vector<std::string> InDigits(const absl::StatusOr<std::vector<SocketAddress>>& addresses);

// Whether only this machine reaches the host: localhost, or an address of the loopback network.
// Asks no name server, so nobody else decides.
bool IsLoopback(const std::string& host);

// A Resolve in another thread, so that nobody waits for it. The object belongs to one thread.
class Lookup {
 public:
  // Begins. An address in digits is known at once; any other name is looked up by another thread.
  explicit Lookup(const Address& address);

  // The outcome, once; nullopt: it is not known yet.
  std::optional<absl::StatusOr<std::vector<SocketAddress>>> Take();

 private:
  struct Outcome;
  const std::shared_ptr<Outcome> outcome_;  // shared with the thread, which may outlive this
};

}  // namespace psgd
