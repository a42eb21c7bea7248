// Messages from other threads to the thread of an HTTP server.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "net/http/http_server.h"
#include "net/wake_event.h"

namespace psgd {

// Thread-safe.
struct HttpReply::Mailbox {
  struct Letter {
    enum Kind { kAnswer, kStream, kPublish } kind = kAnswer;
    uint64_t connection = 0;  // kPublish goes to all streams instead
    std::string bytes;
  };

  void Put(Letter letter);
  std::vector<Letter> Take();

  WakeEvent event;  // set while there are letters
  std::mutex mutex;
  std::vector<Letter> letters;
};

}  // namespace psgd
