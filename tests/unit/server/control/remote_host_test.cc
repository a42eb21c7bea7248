#include "server/control/remote_host.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace psgd {
namespace {

// The other server says these, and hangs up once it is told to.
class ScriptedHost final : public HostStream {
 public:
  explicit ScriptedHost(std::vector<HostSays> script) : script_(std::move(script)) {}

  bool Send(const HostTold&) override { return true; }
  bool Receive(HostSays* says) override {
    if (next_ == script_.size()) return false;
    *says = script_[next_++];
    return true;
  }
  void End() override {}

 private:
  const std::vector<HostSays> script_;
  size_t next_ = 0;
};

HostSays HoldsShard(uint32_t shard, uint64_t written_order) {
  HostSays says;
  says.mutable_held()->mutable_status()->set_shard(shard);
  says.mutable_held()->set_written_order(written_order);
  return says;
}

TEST(RemoteHost, WhatItSaidItHadWrittenCountsForOneConnection) {
  const auto host = std::make_shared<RemoteHost>(2, RemoteHostCallbacks(), NullLog());
  const auto shard = host->Shard(0, "127.0.0.1:1");
  HostSays::Ready ready;
  ready.add_shards(0);
  ready.add_addresses("127.0.0.1:1");
  const auto connect = [&](std::vector<HostSays> script) {
    ScriptedHost says(std::move(script));
    EXPECT_TRUE(host->Serve("two", ready, &says, [] { return absl::OkStatus(); }).ok());
  };
  connect({HoldsShard(0, 7), HoldsShard(0, 6)});  // the second was overtaken
  EXPECT_EQ(shard->written_order(), 7u);
  // Its machine may have lost power since, and an order that was not synced with it.
  connect({});
  EXPECT_EQ(shard->written_order(), 0u);
  connect({HoldsShard(0, 5)});
  EXPECT_EQ(shard->written_order(), 5u);
}

}  // namespace
}  // namespace psgd
