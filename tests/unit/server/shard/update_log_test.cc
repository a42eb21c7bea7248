#include "server/shard/update_log.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

FactorUpdate UpdateTo(uint64_t version, size_t bytes = 100) {
  FactorUpdate update;
  update.version = version;
  update.parts.push_back({1, Bytes::Adopt(std::vector<std::byte>(bytes))});
  return update;
}

std::vector<uint64_t> Versions(const std::optional<std::vector<FactorUpdate>>& updates) {
  std::vector<uint64_t> versions;
  if (updates) {
    for (const FactorUpdate& update : *updates) versions.push_back(update.version);
  }
  return versions;
}

TEST(UpdateLog, GivesWhatCameSince) {
  UpdateLog log(10000, 5);
  EXPECT_TRUE(log.Since(5)->empty());
  log.Add(UpdateTo(6));
  log.Add(UpdateTo(8));  // from two pushes
  EXPECT_EQ(Versions(log.Since(5)), (std::vector<uint64_t>{6, 8}));
  EXPECT_EQ(Versions(log.Since(6)), (std::vector<uint64_t>{8}));
  EXPECT_TRUE(log.Since(8)->empty());
  EXPECT_FALSE(log.Since(4)) << "before it began";
  EXPECT_FALSE(log.Since(9)) << "not there yet";
}

TEST(UpdateLog, ForgetsTheOldestBeyondItsBytes) {
  UpdateLog log(500, 0);
  for (uint64_t version = 1; version <= 10; ++version) log.Add(UpdateTo(version));
  EXPECT_EQ(Versions(log.Since(7)), (std::vector<uint64_t>{8, 9, 10}));
  EXPECT_FALSE(log.Since(1));
  log.Add(UpdateTo(11, 1000));
  EXPECT_FALSE(log.Since(10));
  EXPECT_TRUE(log.Since(11)->empty());
}

TEST(UpdateLog, WhatCameAboutInAnotherWayEndsIt) {
  UpdateLog log(10000, 0);
  log.Add(UpdateTo(1));
  log.Forget(2);
  log.Add(UpdateTo(3));
  EXPECT_FALSE(log.Since(1));
  EXPECT_EQ(Versions(log.Since(2)), (std::vector<uint64_t>{3}));
}

TEST(UpdateLog, TellsTheSameUpdatesFromOthers) {
  const std::vector<FactorUpdate> updates = {UpdateTo(1), UpdateTo(2)};
  EXPECT_TRUE(AreSame(updates, updates));
  EXPECT_FALSE(AreSame(updates, std::span(updates).first(1)));
  for (const auto& change : std::vector<void (*)(FactorUpdate&)>{
           [](FactorUpdate& u) { u.version = 9; }, [](FactorUpdate& u) { u.rate = 9; },
           [](FactorUpdate& u) { u.decay = 9; }, [](FactorUpdate& u) { u.parts[0].scale = 9; },
           [](FactorUpdate& u) { u.parts = UpdateTo(2).parts; }}) {
    std::vector<FactorUpdate> others = updates;
    change(others[1]);
    EXPECT_FALSE(AreSame(updates, others));
  }
}

}  // namespace
}  // namespace psgd
