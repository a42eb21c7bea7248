#include "net/resolve.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace psgd {
namespace {

using Resolved = absl::StatusOr<std::vector<SocketAddress>>;

// `flags`: of getaddrinfo.
Resolved Ask(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return UnavailableError("no host ", host, ": ", ::gai_strerror(error),
                            "; is the name right, and does DNS or /etc/hosts know it?");
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    address.size = at->ai_addrlen;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
  }
  ::freeaddrinfo(found);
  std::ranges::stable_partition(
      addresses, [](const SocketAddress& address) { return address.family() == AF_INET; });
  return addresses;
}

}  // namespace

int SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::string SocketAddress::host() const {
  char text[NI_MAXHOST] = {};
  (void)::getnameinfo(get(), size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

bool SocketAddress::loopback() const {
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  }
  const in_addr ip = reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr;
  return ntohl(ip.s_addr) >> 24 == IN_LOOPBACKNET;
}

Resolved Resolve(const std::string& host, int port) { return Ask(host, port, 0); }

std::vector<std::string> InDigits(const Resolved& addresses) {
  std::vector<std::string> hosts;
  if (addresses.ok())
    std::ranges::transform(*addresses, std::back_inserter(hosts), &SocketAddress::host);
  return hosts;
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  const Resolved addresses = Ask(host, 0, AI_NUMERICHOST);
  return addresses.ok() && std::ranges::all_of(*addresses, &SocketAddress::loopback);
}

struct Lookup::Outcome {
  std::mutex mutex;
  std::optional<Resolved> resolved;
};

Lookup::Lookup(const Address& address) : outcome_(std::make_shared<Outcome>()) {
  Resolved known = Ask(address.host, address.port, AI_NUMERICHOST);
  if (known.ok()) {
    outcome_->resolved = std::move(known);
    return;
  }
  // Not joined: a name server that does not answer would hold up the end of its endpoint.
  try {
    std::thread([outcome = outcome_, address] {
      Resolved resolved = Resolve(address.host, address.port);
      const std::lock_guard lock(outcome->mutex);
      outcome->resolved = std::move(resolved);
    }).detach();
  } catch (const std::system_error& error) {
    outcome_->resolved = UnavailableError("no thread to look ", address.host, " up: ", error.what(),
                                          "; may this user have more (ulimit -u)?");
  }
}

std::optional<Resolved> Lookup::Take() {
  const std::lock_guard lock(outcome_->mutex);
  return std::exchange(outcome_->resolved, std::nullopt);
}

}  // namespace psgd
