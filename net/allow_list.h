// Who may use the data plane of a secured run, and as which worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"

namespace psgd {

// What a worker proves itself with: the public key of its ZeroMQ connections, and a secret word for
// what travels over gRPC, where one certificate may serve many workers.
struct Passes {
  std::string curve_key;  // Z85
  std::string token;
};

// Holds the passes of live members only. Thread-safe: coordinator and connections share it.
class AllowList {
 public:
  // The passes are this worker's from now on, and nobody else's.
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
