// Which workers may use the data plane of a secured run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"

namespace psgd {

// The proofs of a worker's identity: the public key of its ZeroMQ connections, and a secret token
// for gRPC, where many workers may share one certificate.
struct Passes {
  std::string curve_key;  // Z85
  std::string token;
};

// Holds the passes of live members only. Thread-safe: the coordinator and all connections share one
// list.
class AllowList {
 public:
  // Gives the passes to this worker alone; an earlier holder loses them.
  void Admit(uint32_t worker, uint32_t incarnation, const Passes& passes);
  void Remove(uint32_t worker, uint32_t incarnation);

  // `pass`: a public key or a token.
  bool Knows(absl::string_view pass) const;
  bool Belongs(absl::string_view pass, uint32_t worker, uint32_t incarnation) const;
  size_t members() const;

 private:
  struct Member {
    uint32_t incarnation = 0;
    Passes passes;
  };
  struct Holder {
    uint32_t worker = 0;
    uint32_t incarnation = 0;
  };
  void Forget(uint32_t worker);  // REQUIRES: mutex_ held

  mutable std::mutex mutex_;
  std::map<uint32_t, Member> members_;
  std::unordered_map<std::string, Holder> holders_;  // by pass
};

}  // namespace psgd
