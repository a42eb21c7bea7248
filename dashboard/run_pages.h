// The dashboard of recorded runs: a list, and one or more runs side by side.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "common/bounded_queue.h"
#include "dashboard/run_library.h"
#include "net/http/http_server.h"

namespace psgd {

// Thread-safe. Serves until destroyed.
class RunPages {
 public:
  // `root`: a folder of runs, or one run directory.
  static absl::StatusOr<std::unique_ptr<RunPages>> Start(const std::string& root,
                                                         const std::string& host, int port);
  ~RunPages();
  // HOST:PORT.
  std::string address() const;

 private:
  struct Question {
    std::string id;
    HttpReply reply;
  };
  RunPages(const std::string& root, const std::string& host);
  void Handle(const HttpRequest& request, const HttpReply& reply);
  void Work();

  const std::string host_;
  RunLibrary library_;  // used only by the worker once it runs
  BoundedQueue<Question> questions_;
  std::unique_ptr<HttpServer> http_;
  std::thread worker_;
};

// Decodes "a%20b%2Fc" to "a b/c".
std::string PercentDecoded(absl::string_view text);

}  // namespace psgd
