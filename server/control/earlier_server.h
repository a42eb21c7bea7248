// Which server of which run a directory is of. Whoever takes one up says so, and writes nothing
// over that is another's.
#pragma once

#include <string>

#include "common/status.h"
#include "proto/replication.pb.h"

namespace psgd {

struct EarlierServer {
  enum class Kind {
    kNone,     // it holds nothing that anybody would miss
    kOfChain,  // a server of a run with followers: one that followed, or led
    kHost,     // one that held shards for another (ps-server --join)
    kOther,    // a run that nobody follows, or what cannot be read
  };
  Kind kind = Kind::kNone;
  FollowerRecord record;  // of kOfChain
  std::string text;       // for people, as "server 2 of run 0123456789abcdef"
};

absl::StatusOr<EarlierServer> FindEarlierServer(const std::string& server_dir);

// Comes first: before anything is written over, and before anybody hears of that server.
absl::Status SaveFollowerRecord(const std::string& server_dir, const FollowerRecord& record);

}  // namespace psgd
